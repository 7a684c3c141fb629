"""On Redis a message is pushed once under its token, whatever became of the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis
from celery import signals

from celery_pecker.brokers.publisher import Dispatch
from celery_pecker.brokers.redis.script import SHA
from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.errors import (
    BrokerUnavailable,
    PeckerError,
    PublishRefused,
    PublishUncertain,
)
from celery_pecker.testing import eventually
from tests.contract.publisher.cases import CALLS, make_entry
from tests.contract.publisher.conftest import RedisWire, Stand, dispatch
from tests.contract.publisher.lanes import Lane, lane_of
from tests.proxy import Proxy

MakeStand = Callable[..., Stand]


@pytest.fixture
def proxy(redis_url: str) -> Iterator[Proxy]:
    """Give a way to Redis that can be muted, hung and cut."""
    with Proxy.before(redis_url) as way:
        yield way


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    """Give a look at what is stored."""
    with redis.Redis.from_url(redis_url) as direct:
        yield direct


def ready(stand: Stand) -> Stand:
    """Return the stand with one entry known."""
    stand.known(make_entry(stand.app, "one", CALLS["nothing"]))
    return stand


@pytest.fixture(autouse=True)
def _script_is_known(redis_wire: RedisWire, stand_on: MakeStand) -> None:
    """Push once, else the answer that is lost may be that the script is unknown."""
    ready(stand_on(redis_wire)).send([dispatch("one")])
    assert len(redis_wire.take()) == 1


def behind(proxy: Proxy, wire: RedisWire) -> RedisWire:
    """Return the same Redis, reached by the proxy."""
    return replace(wire, url=proxy.url)


def lost_answer(stand: Stand, proxy: Proxy, batch: list[Dispatch], token: str) -> None:
    """The batch is pushed, and the publisher does not hear of it."""
    proxy.mute()
    with pytest.raises(PublishUncertain) as caught:
        stand.send(batch, token)
    assert caught.value.retry_safe
    assert not caught.value.done
    proxy.open()


def test_the_same_batch_under_the_same_token_adds_nothing(
    redis_wire: RedisWire, stand_on: MakeStand
) -> None:
    """The second time is as good as the first, and adds nothing."""
    stand = ready(stand_on(redis_wire))
    batch = [dispatch("one") for _ in range(3)]
    stand.send(batch, "t")
    stand.send(batch, "t")

    assert len(redis_wire.take()) == 3


def test_another_token_adds_it_again(
    redis_wire: RedisWire, stand_on: MakeStand
) -> None:
    """It is the token that keeps a copy out, nothing else."""
    stand = ready(stand_on(redis_wire))
    batch = [dispatch("one")]
    stand.send(batch, "t")
    stand.send(batch, "u")

    assert len(redis_wire.take()) == 2


def test_a_token_lives_for_a_while_and_goes_by_itself(
    redis_wire: RedisWire, stand_on: MakeStand, client: redis.Redis
) -> None:
    """Beside the lists there is one key per thousand messages, and it expires."""
    stand = ready(stand_on(redis_wire))
    stand.send([dispatch("one") for _ in range(1001)], "t")

    tokens = sorted(client.keys("pecker:batch:*"))
    assert tokens == [b"pecker:batch:t:0", b"pecker:batch:t:1"]
    assert all(500 < client.ttl(token) <= 600 for token in tokens)


def test_a_server_that_forgot_the_script_is_told_again(
    redis_wire: RedisWire, stand_on: MakeStand, client: redis.Redis
) -> None:
    """After SCRIPT FLUSH a batch arrives once, and the token still holds."""
    stand = ready(stand_on(redis_wire))
    first, second = [dispatch("one")], [dispatch("one")]
    stand.send(first, "t")
    assert client.script_exists(SHA) == [True]
    client.script_flush()
    stand.send(first, "t")
    client.script_flush()
    stand.send(second, "u")

    assert len(redis_wire.take()) == 2


def test_a_lost_answer_is_made_good_by_the_same_token(
    redis_wire: RedisWire, stand_on: MakeStand, proxy: Proxy
) -> None:
    """Redis had pushed the batch; the second try finds that out and adds nothing."""
    stand = ready(stand_on(behind(proxy, redis_wire), timeout=0.3))
    batch = [dispatch("one") for _ in range(3)]
    lost_answer(stand, proxy, batch, "t")
    stand.send(batch, "t")

    assert len(redis_wire.take()) == 3


def test_a_part_of_an_unanswered_batch_may_be_tried_alone(
    redis_wire: RedisWire, stand_on: MakeStand, proxy: Proxy
) -> None:
    """Whoever drops what is too late by now gets the rest once, not twice."""
    stand = ready(stand_on(behind(proxy, redis_wire), timeout=0.3))
    batch = [dispatch("one") for _ in range(3)]
    lost_answer(stand, proxy, batch, "t")
    stand.send(batch[1:], "t")

    assert len(redis_wire.take()) == 3


def test_the_second_thousand_may_be_tried_without_the_first(
    redis_wire: RedisWire, stand_on: MakeStand, proxy: Proxy
) -> None:
    """`done` names the first thousand; the rest keeps the token it had."""
    stand = stand_on(behind(proxy, redis_wire), timeout=0.5)
    for name in ("first", "second"):
        stand.known(make_entry(stand.app, name, CALLS["nothing"]))
    first = [dispatch("first") for _ in range(1000)]
    second = [dispatch("second") for _ in range(200)]
    lane: Any = stand.publisher._lane
    push = lane._push

    def push_and_mute(*args: object) -> None:
        push(*args)
        proxy.mute()

    lane._push = push_and_mute
    with pytest.raises(PublishUncertain) as caught:
        stand.send([*first, *second], "t")
    assert caught.value.retry_safe
    assert caught.value.done == {"first"}
    lane._push = push
    proxy.open()
    stand.send(second, "t")

    found = redis_wire.take()
    assert len(found) == 1200
    assert len({text for _, text in found}) == 1200


def test_what_was_not_answered_stays_in_the_fast_lane(
    redis_wire: RedisWire, stand_on: MakeStand, proxy: Proxy
) -> None:
    """A process that is watched by now would send it a second time otherwise."""
    stand = ready(stand_on(behind(proxy, redis_wire), timeout=0.3))
    batch = [dispatch("one")]
    lost_answer(stand, proxy, batch, "t")

    def listener(**_: object) -> None:
        """Do nothing."""

    signals.before_task_publish.connect(listener)
    try:
        assert lane_of(stand.publisher, "one").lane is Lane.SLOW
        stand.send(batch, "t")
    finally:
        signals.before_task_publish.disconnect(listener)

    assert len(redis_wire.take()) == 1


def test_a_request_that_arrives_late_adds_nothing(
    redis_wire: RedisWire, stand_on: MakeStand, proxy: Proxy, client: redis.Redis
) -> None:
    """It was kept on the way, tried again elsewhere, and runs after that."""
    stand = ready(stand_on(behind(proxy, redis_wire), timeout=0.3))
    batch = [dispatch("one")]
    proxy.hang()
    with pytest.raises(PublishUncertain):
        stand.send(batch, "t")
    assert not client.exists("celery")
    proxy.open()
    eventually(lambda: client.exists("celery"), message="the late request is run")
    stand.send(batch, "t")

    assert len(redis_wire.take()) == 1


def test_a_token_of_another_batch_is_refused_not_swallowed(
    redis_wire: RedisWire, stand_on: MakeStand
) -> None:
    """A token given twice by mistake is an error, and nothing is lost in silence."""
    stand = ready(stand_on(redis_wire))
    stand.send([dispatch("one")], "t")
    with pytest.raises(PeckerError, match="'t:0' belongs to another batch"):
        stand.send([dispatch("one")], "t")

    assert len(redis_wire.take()) == 1


def test_a_batch_is_pushed_whole_or_not_at_all(
    redis_wire: RedisWire, stand_on: MakeStand, client: redis.Redis
) -> None:
    """One key that is no list keeps the whole batch out; then each goes alone."""
    stand = ready(stand_on(redis_wire))
    stand.known(make_entry(stand.app, "two", CALLS["queue made up"]))
    client.set("made-up", "not a list")
    batch = [dispatch("one"), dispatch("two")]
    with pytest.raises(PublishRefused, match=r"two: .*WRONGTYPE"):
        stand.send(batch, "t")
    assert not client.exists("pecker:batch:t:0")
    client.delete("made-up")

    assert len(redis_wire.take()) == 1


def test_a_full_server_takes_nothing(
    own_redis: Callable[..., object], stand_on: MakeStand
) -> None:
    """Redis out of memory says no before the first write."""
    server = own_redis(fast=True)
    wire = RedisWire(server.url)  # type: ignore[attr-defined]
    stand = ready(stand_on(wire))
    with redis.Redis.from_url(wire.url) as client:
        client.config_set("maxmemory", 1)
        batch = [dispatch("one"), dispatch("one")]
        with pytest.raises(BrokerUnavailable, match=r"(?i)memory"):
            stand.send(batch, "t")
        client.config_set("maxmemory", 0)
    stand.send(batch, "t")

    assert len(wire.take()) == 2


def test_after_a_failover_to_another_server_a_token_proves_nothing(
    redis_wire: RedisWire,
    stand_on: MakeStand,
    proxy: Proxy,
    own_redis: Callable[..., object],
) -> None:
    """The second server of a failover list cannot know what the first one did."""
    other = own_redis(fast=True)
    first = behind(proxy, redis_wire)
    both = replace(first, url=f"{first.url};{other.url}")  # type: ignore[attr-defined]
    stand = ready(stand_on(both, timeout=0.3))
    batch = [dispatch("one")]
    proxy.mute()
    with pytest.raises(PublishUncertain) as caught:
        stand.send(batch, "t")
    assert caught.value.retry_safe
    proxy.refuse()
    with pytest.raises(PublishUncertain) as again:
        stand.send(batch, "t")
    assert not again.value.retry_safe
    stand.send([dispatch("one")], str(new_id()))

    assert len(RedisWire(other.url).take()) == 1  # type: ignore[attr-defined]
    assert len(redis_wire.take()) == 1
