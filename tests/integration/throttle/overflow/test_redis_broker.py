"""On Redis a message is moved once, and never from under another worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from redis.commands.core import Script

from celery_pecker.brokers.redis.guard import RedisGuard
from celery_pecker.kernel.clock import now
from tests.integration.throttle.overflow.desk import Desk


@pytest.fixture
def pair(redis_url: str, desks: Callable[..., Desk]) -> tuple[Desk, Desk]:
    """Two workers of one queue; messages are stolen by hand, not by time."""
    first = desks(redis_url)
    return first, desks(redis_url, mark=first.mark)


@pytest.fixture
def server(redis_url: str) -> Iterator[Any]:
    """Redis itself."""
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


def steal(desk: Desk, thief: Desk, *names: str) -> None:
    """What `desk` has in hand is handed out again, as if it had stood still."""
    for name in names:
        tag = desk.held(name).request.message.delivery_tag
        desk.tasks.channel.qos.restore_by_tag(tag)
    thief.get(*names)


def test_a_lost_answer_moves_nothing_twice(
    pair: tuple[Desk, Desk], server: Any
) -> None:
    """The script ran, nobody heard it: the same again finds nothing to move."""
    desk, _ = pair
    desk.send("one")
    (held,) = desk.get("one")
    desk.broker.park("a", [held])
    desk.broker.park("a", [held])
    assert desk.told == [("parked", "one"), ("gone", "one")]
    assert server.llen(desk.parking_of("a")) == 1
    assert server.hlen("unacked") == server.zcard("unacked_index") == 0


def test_what_another_worker_has_is_not_moved(
    pair: tuple[Desk, Desk], server: Any
) -> None:
    """It bears the same tag: moved, it would run there and here."""
    desk, thief = pair
    desk.send("one")
    (held,) = desk.get("one")
    steal(desk, thief, "one")
    desk.broker.park("a", [held])
    assert desk.told == [("gone", "one")]
    assert server.llen(desk.parking_of("a")) == 0
    assert server.hlen("unacked") == 1


def test_a_parked_message_is_not_acknowledged_for_who_took_it(
    pair: tuple[Desk, Desk], server: Any
) -> None:
    """Another worker has it by the same tag; if that one dies it must come again."""
    desk, other = pair
    desk.send("one")
    desk.parks("one")
    other.broker.attend(["a"])
    other.get("one")
    desk.close()
    assert server.hlen("unacked") == server.zcard("unacked_index") == 1


def test_one_that_came_back_to_the_same_worker_is_kept(
    pair: tuple[Desk, Desk], server: Any
) -> None:
    """The first copy is dropped, and the second is still this connection's."""
    desk, _ = pair
    desk.send("one")
    (held,) = desk.get("one")
    steal(desk, desk, "one")
    desk.until(lambda: len(desk.came) == 2, "it came twice")
    desk.broker.park("a", [held])
    assert desk.told == [("gone", "one")]
    desk.close()
    assert server.llen(desk.name("work")) == 1


def test_renewing_keeps_what_is_held(pair: tuple[Desk, Desk], server: Any) -> None:
    """The stamps are new, of all slices; what is not there is not made."""
    desk, _ = pair
    desk.broker.prefetch.rise(600)
    names = [f"n{number}" for number in range(450)]
    desk.send(*names)
    held = desk.get(*names)
    held[7].request.acknowledge()
    before = now().timestamp()
    desk.broker.renew(held)
    assert desk.told == [("gone", "n7")]
    stamps = [
        score for _, score in server.zrange("unacked_index", 0, -1, withscores=True)
    ]
    assert len(stamps) == 449
    assert min(stamps) >= before
    assert held[0].since in stamps
    desk.broker.renew(held[:7])
    assert len(desk.told) == 1


def test_a_renewal_whose_answer_is_lost_is_ours_all_the_same(
    redis_url: str,
    desks: Callable[..., Desk],
    server: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Redis was slow, and nobody heard it: the stamps that it then has are our own."""
    desk = desks(redis_url)
    desk.send("one", "two")
    held = desk.get("one", "two")
    given = server.zrange("unacked_index", 0, -1, withscores=True)
    call = Script.__call__

    def deaf(*args: Any, **kwargs: Any) -> Any:
        call(*args, **kwargs)
        raise redis.TimeoutError

    monkeypatch.setattr(Script, "__call__", deaf)
    assert not desk.broker.renew(held)
    assert not desk.broker.renew(held[:1])
    assert server.zrange("unacked_index", 0, -1, withscores=True) != given
    monkeypatch.undo()
    assert desk.broker.renew(held[:1])
    assert desk.broker.renew(held[:1])
    assert desk.told == []
    desk.broker.park("a", held)
    assert desk.told == [("parked", "one"), ("parked", "two")]
    assert server.hlen("unacked") == 0


def test_what_another_worker_has_is_not_renewed(
    pair: tuple[Desk, Desk], server: Any
) -> None:
    """It must not run here; and it stays the other's."""
    desk, thief = pair
    desk.send("one")
    (held,) = desk.get("one")
    steal(desk, thief, "one")
    (stamp,) = server.zrange("unacked_index", 0, -1, withscores=True)
    desk.broker.renew([held])
    assert desk.told == [("gone", "one")]
    assert server.zrange("unacked_index", 0, -1, withscores=True) == [stamp]
    assert held.request.acknowledged
    desk.close()
    assert server.hlen("unacked") == 1


def test_what_redis_refuses_stays(pair: tuple[Desk, Desk], server: Any) -> None:
    """Out of memory, say: neither lost nor parked, and parked when there is room."""
    desk, _ = pair
    desk.send("one")
    (held,) = desk.get("one")
    server.config_set("maxmemory-policy", "noeviction")
    server.config_set("maxmemory", 1)
    try:
        desk.broker.park("a", [held])
        desk.broker.renew([held])
    finally:
        server.config_set("maxmemory", 0)
    assert desk.told == [("kept", "one")]
    assert server.hlen("unacked") == 1
    desk.forget_told()
    desk.broker.park("a", [held])
    assert desk.told == [("parked", "one")]


def test_the_guard_on_redis_keeps_no_parked_request(
    redis_url: str, desks: Callable[..., Desk]
) -> None:
    """It remembers what a worker was given until that is acknowledged, or parked."""
    desk = desks(redis_url)
    guard = RedisGuard(SimpleNamespace(consumer=desk.consumer))
    guard._resume(lambda: None)
    desk.send("one", "two")
    held = desk.get("one", "two")
    for one in held:
        guard._hand(lambda _: None, one.request)
    desk.broker.park("a", held[:1])
    assert list(guard._handed.values()) == [held[1].request]


def test_the_guard_on_redis_makes_one_client_for_all_messages(
    redis_url: str, desks: Callable[..., Desk]
) -> None:
    """Two for each message are kombu's; a new pool, after a loss, gets a new one."""
    desk = desks(redis_url)
    guard = RedisGuard(SimpleNamespace(consumer=desk.consumer))
    guard._resume(lambda: None)
    channel = desk.tasks.channel
    made: list[Any] = []
    make = channel.Client

    def counted(**options: Any) -> Any:
        made.append(options)
        return make(**options)

    channel.Client = counted
    desk.send("one", "two")
    for one in desk.get("one", "two"):
        one.request.acknowledge()
    assert len(made) == 1
    before = made[0]["connection_pool"]
    channel._disconnect_pools()
    with channel.conn_or_acquire() as client:
        assert client.ping()
        assert client.connection_pool is channel.pool is not before
    assert len(made) == 2


def test_only_parking_queues_with_messages_are_fetched_from(
    redis_url: str, desks: Callable[..., Desk]
) -> None:
    """An empty one would cost each fetch four keys more."""
    desk = desks(redis_url)
    active = desk.tasks.channel._active_queues
    desk.broker.attend(["a", "b"])
    assert active == [desk.name("work")]
    desk.send("one")
    desk.parks("one")
    desk.until(lambda: desk.attend("a", "b") and len(active) == 2, "it is looked again")
    assert active == [desk.name("work"), desk.parking_of("a")]


def test_what_is_on_its_way_while_a_queue_is_paused_comes_here(
    redis_url: str, desks: Callable[..., Desk], server: Any
) -> None:
    """A fetch that waits in Redis takes one more: kombu would requeue it, last."""
    desk = desks(redis_url)
    desk.turn()  # a BRPOP is out
    desk.broker.pause(desk.name("work"))
    desk.send("one", "two")
    desk.get("one")
    desk.turn()
    assert desk.hand == ["one"]
    assert server.llen(desk.name("work")) == 1
