"""What a relay brings to the broker, and what it puts aside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.testing import EmbeddedRedis, eventually
from celery_pecker.testing.manual import ManualClock
from tests.integration.outbox_relay.conftest import Makes
from tests.integration.outbox_relay.rows import column, record
from tests.integration.outbox_relay.wires import RabbitWire, RedisWire
from tests.proxy import Proxy

LEFT = "select id from pecker_outbox order by id"
HELD = "select batch from pecker_outbox_batches"
TASKS = "select task_id from pecker_outbox"
ERRORS = "select last_error from pecker_outbox where parked_at is not null order by id"
BROKEN = "update pecker_outbox set properties = '{' where id = %s"
FANOUT = '[{"exchange": {"name": "%s", "type": "fanout"}}]'


def test_what_is_due_arrives_and_leaves_the_table(
    outbox: psycopg.Connection[Any], makes: Makes, wire: RedisWire | RabbitWire
) -> None:
    """Each once; what is deferred waits."""
    record(outbox, 1_500, queue=wire.queue)
    tasks = {*column(outbox, TASKS)}
    later = record(outbox, 3, queue=wire.queue, delay=3_600.0)
    made = makes(wire.url)
    assert made.step() == 0.0, "a full batch: there may be more"
    assert made.step() > 0.0
    assert column(outbox, LEFT) == later
    assert column(outbox, HELD) == []
    found = wire.task_ids()
    assert found.keys() == tasks
    assert {*found.values()} == {1}
    assert made.relay.tally.sent == 1_500


def test_one_that_cannot_be_read_is_parked(
    outbox: psycopg.Connection[Any], makes: Makes, wire: RedisWire | RabbitWire
) -> None:
    """With its error; the others go on."""
    ids = record(outbox, 5, queue=wire.queue)
    outbox.execute(BROKEN, [ids[1]])
    outbox.execute("update pecker_outbox set declare = '7' where id = %s", [ids[3]])
    made = makes(wire.url)
    eventually(lambda: made.step() and not column(outbox, HELD), 30.0, "all are sent")
    assert column(outbox, LEFT) == [ids[1], ids[3]]
    unread, undeclared = column(outbox, ERRORS)
    assert "Expecting property name" in unread
    assert "no list of queues" in undeclared
    assert wire.task_ids().total() == 3
    assert made.relay.tally.parked == 2


def test_one_that_redis_refuses_is_parked(
    outbox: psycopg.Connection[Any], makes: Makes, redis_url: str, queue_name: str
) -> None:
    """Its list is a string; the others of the batch go on."""
    wire = RedisWire(redis_url, queue_name)
    wire.client.set("taken", "by somebody")
    record(outbox, 2, queue=wire.queue)
    bad = record(outbox, 1, queue="taken")
    record(outbox, 2, queue=wire.queue)
    makes(redis_url).step()
    assert column(outbox, LEFT) == bad
    assert column(outbox, HELD) == []
    [error] = column(outbox, ERRORS)
    assert "WRONGTYPE" in error
    assert {*wire.task_ids().values()} == {1}
    wire.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_full_redis_parks_nothing_however_long(
    outbox: psycopg.Connection[Any],
    makes: Makes,
    own_redis: Callable[..., EmbeddedRedis],
    scripts: bool,
) -> None:
    """The probe passes and a batch does not: that is not its messages' doing."""
    server = own_redis(fast=True)
    url = urlsplit(server.url)
    with redis.Redis.from_url(server.url) as client:
        rights = ["+@all"] if scripts else ["+@all", "-@scripting"]
        client.acl_setuser(
            "app", enabled=True, nopass=True, keys="*", channels="*", categories=rights
        )
        made = makes(f"redis://app:any@127.0.0.1:{url.port}/0")
        record(outbox, 1)
        made.step()
        assert client.llen("celery") == 1
        used: Any = client.info("memory")
        client.config_set("maxmemory", used["used_memory"] + 300_000)
        ids = record(outbox, 4, body=b'"%s"' % (b"x" * 900_000))
        for _ in range(25):
            made.publisher.ensure()
            outbox.execute("update pecker_outbox_batches set held_until = now()")
            made.step()
        assert column(outbox, LEFT) == ids
        assert column(outbox, ERRORS) == []
        client.config_set("maxmemory", 0)

        def delivered() -> bool:
            outbox.execute("update pecker_outbox_batches set held_until = now()")
            made.step()
            return not column(outbox, LEFT)

        eventually(delivered, 30.0, "all is sent")
        assert client.llen("celery") == 5


def test_ones_that_rabbitmq_refuses_are_parked(
    outbox: psycopg.Connection[Any], makes: Makes, amqp_url: str, queue_name: str
) -> None:
    """No such queue, no such exchange, and one that cannot be framed."""
    wire = RabbitWire(amqp_url, queue_name)
    wire.make()
    good = record(outbox, 2, queue=wire.queue)
    unknown = record(outbox, 1, queue=f"{queue_name}-none")
    lost = record(outbox, 1, queue=wire.queue)
    outbox.execute(
        "update pecker_outbox set exchange = %s where id = %s",
        [f"{queue_name}-none", lost[0]],
    )
    long = record(outbox, 1, queue="q" * 300)
    good += record(outbox, 2, queue=wire.queue)
    made = makes(amqp_url)
    eventually(lambda: made.step() and not column(outbox, HELD), 30.0, "all are sent")
    assert column(outbox, LEFT) == [*unknown, *lost, *long]
    first, second, third = column(outbox, ERRORS)
    assert "no queue took it" in first
    assert "no exchange" in second
    assert third
    assert wire.task_ids().total() == len(good)
    wire.close()


def test_nothing_is_claimed_while_the_broker_is_away(
    outbox: psycopg.Connection[Any],
    makes: Makes,
    own_redis: Callable[..., EmbeddedRedis],
) -> None:
    """The table grows, the relay says why; then all of it goes out."""
    server = own_redis(fast=True)
    made = makes(server.url)
    made.step()
    server.kill()
    ids = record(outbox, 3)
    made.step()
    assert column(outbox, HELD) == []
    assert column(outbox, LEFT) == ids
    [why] = column(outbox, "select broker from pecker_outbox_relays")
    assert "redis" in why
    server.start()

    def delivered() -> bool:
        made.step()
        return not column(outbox, LEFT)

    eventually(delivered, 30.0, "all is sent")
    eventually(
        lambda: column(outbox, "select broker from pecker_outbox_relays") == [None]
    )
    with redis.Redis.from_url(server.url) as client:
        assert client.llen("celery") == 3


def test_a_lost_reply_doubles_nothing(
    outbox: psycopg.Connection[Any], makes: Makes, redis_url: str
) -> None:
    """Redis has the batch, and the relay does not hear of it."""
    record(outbox, 3)
    with Proxy.before(redis_url) as proxy:
        url = proxy.url
        made = makes(url, timeout=0.5)
        made.publisher.ensure()
        push = made.publisher.push

        def muted(*args: Any, **kwargs: Any) -> Any:
            proxy.mute()
            return push(*args, **kwargs)

        made.publisher.push = muted  # type: ignore[method-assign]
        made.step()
        proxy.open()
    [(tries, ids)] = outbox.execute(
        "select tries, cardinality(ids) from pecker_outbox_batches"
    ).fetchall()
    assert (tries, ids) == (0, 3)
    other = makes(redis_url)

    def delivered() -> bool:
        other.step()
        return not column(outbox, LEFT)

    eventually(delivered, 30.0, "the other relay closes the batch")
    with redis.Redis.from_url(redis_url) as client:
        assert client.llen("celery") == 3


def test_what_goes_apart_is_not_lost_with_a_known_token(
    outbox: psycopg.Connection[Any], makes: Makes, redis_url: str
) -> None:
    """No script publishes to subscribers: it is in a batch of its own by then."""
    record(outbox, 2)
    [spread] = record(outbox, 1)
    outbox.execute(
        "update pecker_outbox set exchange = 'all', declare = %s where id = %s",
        [FANOUT % "all", spread],
    )
    made = makes(redis_url)
    write, seen = made.batches.close, []

    def dies(batch: Any) -> int:
        seen.append(batch.ids)
        raise KeyboardInterrupt

    made.batches.close = dies  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        made.step()
    assert seen == [[id_ for id_ in column(outbox, LEFT) if id_ != spread]]
    made.batches.close = write  # type: ignore[method-assign]
    outbox.execute("update pecker_outbox_batches set held_until = now()")
    with redis.Redis.from_url(redis_url) as client, client.pubsub() as listener:
        listener.psubscribe("*all*")
        listener.get_message(timeout=5.0)
        other = makes(redis_url)
        other.step()
        other.step()
        assert column(outbox, LEFT) == []
        assert client.llen("celery") == 2
        heard = listener.get_message(timeout=5.0)
        assert heard is not None
        assert heard["type"] == "pmessage"


def test_what_was_sent_is_deleted_once_the_database_is_back(
    outbox: psycopg.Connection[Any], makes: Makes, wire: RedisWire | RabbitWire
) -> None:
    """By the relay itself: it does not send it a second time, on RabbitMQ either."""
    record(outbox, 3, queue=wire.queue)
    made = makes(wire.url)
    close = made.batches.close

    def unanswered(batch: Any) -> int:
        made.batches.close = close  # type: ignore[method-assign]
        raise DatabaseUnavailable

    made.batches.close = unanswered  # type: ignore[method-assign]
    with pytest.raises(DatabaseUnavailable):
        made.step()
    assert len(column(outbox, LEFT)) == 3
    made.step()
    assert column(outbox, LEFT) == []
    assert wire.task_ids().total() == 3


def test_a_message_that_nobody_survives_is_parked_in_the_end(
    outbox: psycopg.Connection[Any], makes: Makes, redis_url: str
) -> None:
    """The batch goes one by one after some tries, and each other one arrives."""
    ids = record(outbox, 3)
    clock = ManualClock()
    made = makes(redis_url, clock=clock)
    record(outbox, 1)
    push = made.publisher.push

    def breaks(messages: Any, token: str, **kwargs: Any) -> Any:
        pushed = (
            push([one for one in messages if one.id != ids[1]], token, **kwargs)
            if ids[1] not in {one.id for one in messages}
            else None
        )
        if pushed is None:
            failed = type(push([], token, **kwargs))()
            failed.broken = OSError("the connection is gone")
            return failed
        return pushed

    made.publisher.push = breaks  # type: ignore[method-assign]

    def settled() -> bool:
        outbox.execute("update pecker_outbox_batches set held_until = now()")
        made.step()
        return not column(outbox, HELD)

    eventually(settled, 60.0, "the message is parked")
    assert column(outbox, LEFT) == [ids[1]]
    [error] = column(outbox, ERRORS)
    assert "tries ended with its relay or connection gone" in error
    with redis.Redis.from_url(redis_url) as client:
        assert client.llen("celery") == 3


def test_a_held_snapshot_does_not_slow_the_walk(
    dsn: str, outbox: psycopg.Connection[Any], makes: Makes, wire: RedisWire
) -> None:
    """What was deleted stays in the index; the next claim walks from above it."""
    made = makes(wire.url)
    with psycopg.connect(dsn) as report:
        report.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        report.execute("select count(*) from pecker_outbox")
        ids = record(outbox, 1_200, queue=wire.queue)
        for _ in range(3):
            made.step()
        assert column(outbox, LEFT) == []
        assert made.relay._watermark.above == ids[-1]
        more = record(outbox, 1, queue=wire.queue)
        made.step()
        assert column(outbox, LEFT) == [], more


def test_a_reply_of_a_claim_that_was_lost_costs_no_hold(
    outbox: psycopg.Connection[Any], makes: Makes, wire: RedisWire | RabbitWire
) -> None:
    """The relay finds its own batch in the next step."""
    record(outbox, 2, queue=wire.queue)
    made = makes(wire.url)
    made.relay.step()
    claim = made.batches.claim
    record(outbox, 2, queue=wire.queue)

    def quota_without_answer(*args: Any, **kwargs: Any) -> Any:
        made.batches.claim = claim  # type: ignore[method-assign]
        claim(*args, **kwargs)
        raise DatabaseUnavailable

    made.batches.claim = quota_without_answer  # type: ignore[method-assign]
    with pytest.raises(DatabaseUnavailable):
        made.relay.step()
    assert len(column(outbox, HELD)) == 1
    made.relay.step()
    assert column(outbox, LEFT) == []
    assert wire.task_ids().total() == 4
