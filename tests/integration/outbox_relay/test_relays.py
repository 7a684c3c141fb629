"""One process delivers several tables; none holds another one up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
import redis
from celery import Celery
from psycopg import conninfo

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.outbox import Outbox
from celery_pecker.schedules.replica.relays import LOOK_INTERVAL, Relays
from celery_pecker.testing import eventually
from tests.integration.outbox_relay.rows import column, record
from tests.proxy import Proxy

SOON = 20.0
"""Seconds in which a stop is over: one is promised; this leaves room."""

Start = Callable[[Celery], Relays]


@pytest.fixture
def start(tmp_path: Any) -> Iterator[Start]:
    """Give a way to start the relays of an app."""
    with ExitStack() as stack:

        def make(app: Celery) -> Relays:
            app.conf.pecker_heartbeat_dir = str(tmp_path)
            relays = Relays(app, kind="test")
            stack.callback(relays.join, 5.0)
            stack.callback(relays.stop)
            relays.start()
            return relays

        yield make


def app_on(dsn: str, broker: str, queue: str) -> Celery:
    """Return an app with a task of its own queue."""
    app = Celery("several", broker=broker, set_as_current=False)
    app.conf.update(
        pecker_dsn=dsn,
        pecker_broker_timeout=0.5,
        pecker_database_timeout=0.5,
        task_default_queue=queue,
    )
    return app


def note(app: Celery) -> Any:
    """Return a task that nobody runs."""

    def nothing() -> None:
        """What is run does not matter."""

    task: Any = app.task(name="note", shared=False)
    return task(nothing)


def waiting(broker: str, queue: str) -> int:
    """Return how many messages a queue has."""
    with redis.Redis.from_url(broker) as client:
        return int(str(client.llen(queue)))


def test_a_dead_and_a_slow_table_hold_no_other_up(
    dsn: str, redis_url: str, queue_name: str, start: Start
) -> None:
    """One whose server is gone, and one whose server never answers."""
    parts = conninfo.conninfo_to_dict(dsn)
    app = app_on(dsn, redis_url, queue_name)
    outbox = Outbox(app)
    task = note(app)
    with Proxy(str(parts["host"]), int(str(parts["port"]))) as proxy:
        proxy.mute()
        slow = {**parts, "host": "127.0.0.1", "port": str(proxy.port)}
        Outbox(app, dsn=conninfo.make_conninfo("", **slow), name="slow")
        Outbox(app, dsn="postgresql://127.0.0.1:1/nowhere", name="dead")
        relays = start(app)
        for _ in range(3):
            outbox.send(task.s())
        outbox.close()
        eventually(lambda: waiting(redis_url, queue_name) == 3, 30.0, "all three")
        assert [one["name"] for one in relays.info()] == ["default", "slow", "dead"]
        relays.stop()
        began = SYSTEM.monotonic()
        relays.join(0.4)
        assert SYSTEM.monotonic() - began < SOON


def test_two_tables_are_delivered(
    dsn: str, postgres_server: Any, redis_url: str, queue_name: str, start: Start
) -> None:
    """Each over a connection of its own."""
    app = app_on(dsn, redis_url, queue_name)
    task = note(app)
    with postgres_server.fresh(migrated=True) as other:
        here, there = Outbox(app), Outbox(app, dsn=other, name="eu")
        relays = start(app)
        here.send(task.s())
        there.send(task.s())
        here.close()
        there.close()
        eventually(lambda: waiting(redis_url, queue_name) == 2, 30.0, "both")
        eventually(lambda: sum(one["sent"] for one in relays.info()) == 2)
        assert relays.alive
        relays.stop()
        assert relays.join(30.0)


def test_a_setting_says_how_long_a_batch_is_held(
    dsn: str,
    outbox: psycopg.Connection[Any],
    redis_url: str,
    queue_name: str,
    start: Start,
) -> None:
    """``pecker_outbox_lease``: another relay takes it over after that."""
    app = app_on(dsn, redis_url, queue_name)
    app.conf.update(pecker_outbox_lease=7.0)
    with_rows = Outbox(app)
    relays = start(app)
    [running] = relays._all
    running.loop.stop()
    assert running.loop.join(30.0)
    holds: list[Any] = []
    push: Any = running.publisher.push

    def look_and_push(*args: Any, **options: Any) -> Any:
        holds.append(column(outbox, "select hold::text from pecker_outbox_batches"))
        return push(*args, **options)

    running.publisher.push = look_and_push  # type: ignore[method-assign]
    with_rows.send(note(app).s())
    with_rows.close()
    eventually(lambda: running.relay.step() and holds, 30.0, "it was sent")
    assert holds[0] == ["00:00:07"]
    assert waiting(redis_url, queue_name) == 1
    running.publisher.close()
    running.database.close()


def test_a_table_that_is_not_there_is_waited_for(
    empty_dsn: str,
    redis_url: str,
    queue_name: str,
    start: Start,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Somebody migrates it sooner or later; it ends no process."""
    app = app_on(empty_dsn, redis_url, queue_name)
    Outbox(app)
    relays = start(app)
    eventually(lambda: "is not delivered" in caplog.text, 30.0, "it says so")
    assert "pecker migrate" in caplog.text
    assert relays.alive


def test_an_app_that_makes_no_outbox_delivers_its_table_once_it_is_used(
    dsn: str, redis_url: str, queue_name: str
) -> None:
    """The web process alone may make it; until then there is a look now and then."""
    relays = Relays(app_on(dsn, redis_url, queue_name), kind="test")
    [own] = relays._all
    for _ in range(2):
        assert own._step() == LOOK_INTERVAL
        assert not own.database.connected
    assert relays.alive
    assert relays.info() == []
    with psycopg.connect(dsn, autocommit=True) as connection:
        record(connection, 3, queue=queue_name)
        own._step()
        assert column(connection, "select id from pecker_outbox") == []
    with redis.Redis.from_url(redis_url) as client:
        assert client.llen(queue_name) == 3
    assert relays.alive
    assert [one["sent"] for one in relays.info()] == [3]
    relays.stop()
    own._leave()


def test_the_table_of_the_app_is_followed_beside_its_outboxes(
    dsn: str, redis_url: str
) -> None:
    """Unless one of them is that table."""
    app = app_on(dsn, redis_url, "none")
    Outbox(app, name="eu", schema="eu")
    assert [*Relays(app, kind="test").settings] == ["eu", "default"]
    Outbox(app, name="ours")
    assert [*Relays(app, kind="test").settings] == ["eu", "ours"]


def test_figures_are_folded_and_purged_where_no_scheduler_runs(
    dsn: str,
    outbox: psycopg.Connection[Any],
    redis_url: str,
    queue_name: str,
    start: Start,
) -> None:
    """An app may have an outbox alone: its charts are bounded all the same."""
    outbox.execute(
        "insert into pecker_figures (step, part, at, holder, figures)"
        ' select step, 3, now() - age, gen_random_uuid(), \'{"outbox": "n:2"}\''
        " from (values (1, interval '2 hours'), (60, interval '31 days'))"
        " as old (step, age)"
    )
    app = app_on(dsn, redis_url, queue_name)
    Outbox(app)
    start(app)
    held = "select step from pecker_figures where part = 3 order by step"
    eventually(lambda: column(outbox, held) == [1, 15, 60], 60.0, "folded")
    oldest = "select at < now() - interval '30 days' from pecker_figures"
    eventually(lambda: not any(column(outbox, oldest)), 60.0, "the old row has gone")


def test_schedules_go_on_while_a_relay_is_stuck(
    dsn: str, redis_url: str, queue_name: str, start: Start
) -> None:
    """Its broker accepts and never answers; a stop is over at once all the same."""
    with Proxy.before(redis_url) as proxy:
        url = proxy.url
        app = app_on(dsn, url, queue_name)
        app.conf.pecker_broker_timeout = 60.0
        Outbox(app)
        proxy.mute()
        relays = start(app)
        eventually(lambda: proxy.connections() > 0, 30.0, "it is connected")
        began = SYSTEM.monotonic()
        relays.stop()
        assert not relays.join(0.4)
        assert SYSTEM.monotonic() - began < SOON
        proxy.cut()
        assert relays.join(30.0)
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select from pecker_outbox_batches").rowcount == 0
