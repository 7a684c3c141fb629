"""Messages go to the parking queue, once, and come back as they were."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from celery_pecker.kernel.clock import now
from tests.integration.throttle.overflow.desk import PREFETCH, Desk


def test_parked_messages_come_back_in_order(desk: Desk) -> None:
    """First in, first out; nothing is left behind, nothing comes twice."""
    desk.send("one", "two", "three")
    desk.parks("one", "two", "three")
    desk.forget()
    desk.broker.attend(["a"])
    desk.until(lambda: len(desk.came) == 3, "all came back")
    assert desk.hand == ["one", "two", "three"]
    for hand in desk.came:
        assert desk.broker.was_parked(hand)
        hand.acknowledge()
    desk.close()
    again = Desk(desk.url, mark=desk.mark, options=desk.options)
    again.broker.attend(["a"])
    again.send("last")
    again.get("last")
    assert again.hand == ["last"]
    again.close()


def test_what_a_message_says_survives(desk: Desk) -> None:
    """Body, headers, stamps, expires, ETA, priority, reply_to, delivery_info."""
    moment = now() + timedelta(hours=1)
    desk.send(
        "one",
        priority=3,
        expires=moment + timedelta(days=1),
        eta=moment,
        reply_to="me",
        headers={"mine": {"deep": [1, 2.5, [], {}, None]}},
        stamped_headers=["stamp"],
        stamp="x",
        countdown=None,
    )
    (held,) = desk.get("one")
    before = told(held.request.message)
    desk.parks("one")
    desk.forget()
    desk.broker.attend(["a"])
    (back,) = desk.get("one")
    after = told(back.request.message)
    assert after == before
    assert before["headers"]["mine"] == {"deep": [1, 2.5, [], {}, None]}
    assert before["headers"]["expires"]
    assert before["headers"]["eta"]
    assert before["priority"] == 3
    assert before["reply_to"] == "me"


def told(message: Any) -> dict[str, Any]:
    """Return what a task may see of its message."""
    info = message.delivery_info
    return {
        "body": message.body,
        "headers": dict(message.headers),
        "content": (message.content_type, message.content_encoding),
        "route": (info["exchange"], info["routing_key"]),
        "reply_to": message.properties["reply_to"],
        "correlation_id": message.properties["correlation_id"],
        "priority": message.properties["priority"],
        "delivery_mode": message.properties["delivery_mode"],
    }


def test_a_compressed_message_survives(desk: Desk) -> None:
    """It is published anew with what kombu undid."""
    desk.send("one", compression="gzip")
    desk.parks("one")
    desk.forget()
    desk.broker.attend(["a"])
    (back,) = desk.get("one")
    assert back.request.name == "one"


def test_parking_makes_room_for_others(desk: Desk) -> None:
    """As many as the prefetch are in hand; once parked, the next ones come."""
    names = [f"hot-{number}" for number in range(PREFETCH)]
    desk.send(*names, "free")
    desk.parks(*names)
    desk.get("free")


def test_each_database_and_source_has_its_own(
    desks: Callable[..., Desk], url_and_options: tuple[str, dict[str, Any]]
) -> None:
    """What is parked for b stays there while only a is attended."""
    url, options = url_and_options
    desk = desks(url, queues=("work", "only"), prefetch=10, **options)
    desk.send("for a")
    desk.send("for b", queue="only")
    first, second = desk.get("for a", "for b")
    desk.broker.park("a", [first])
    desk.broker.park("b", [second])
    desk.until(lambda: len(desk.told) == 2, "both are parked")
    desk.forget()
    # A worker that does not consume from `only` does not take what came from there
    other = Desk(url, mark=desk.mark, **options)
    desk.close()
    other.broker.attend(["a", "b"])
    other.get("for a")
    other.send("last")
    other.get("last")
    assert other.hand == ["for a", "last"]
    assert other.broker.queue_of(other.came[0]) == other.name("work")
    other.close()
    both = Desk(url, mark=desk.mark, queues=("work", "only"), **options)
    both.broker.attend(["b"])
    (held,) = both.get("for b")
    assert both.broker.queue_of(held.request) == both.name("only")
    both.close()


def test_attending_ends(desk: Desk) -> None:
    """A database that is not attended any more gives nothing."""
    desk.send("one")
    desk.parks("one")
    desk.forget()
    desk.broker.attend(["a"])
    (back,) = desk.get("one")
    desk.broker.attend([])
    desk.broker.park("a", [back])
    desk.until(lambda: desk.told, "it is parked again")
    desk.forget()
    desk.send("last")
    desk.get("last")
    assert desk.hand == ["last"]


def test_a_message_in_hand_goes_back_when_the_worker_ends(desk: Desk) -> None:
    """What came from parking and was not run is there for the next worker."""
    desk.send("one")
    desk.parks("one")
    desk.forget()
    desk.broker.attend(["a"])
    desk.get("one")
    desk.close()
    again = Desk(desk.url, mark=desk.mark, options=desk.options)
    again.broker.attend(["a"])
    again.get("one")
    assert again.hand == ["one"]
    again.close()


def test_a_paused_queue_gives_nothing_and_resumes(
    desks: Callable[..., Desk], url_and_options: tuple[str, dict[str, Any]]
) -> None:
    """Others go on; what waited comes, also after pausing twice."""
    url, options = url_and_options
    desk = desks(url, queues=("work", "only"), prefetch=10, **options)
    desk.send("first", queue="only")
    desk.get("first")
    for _ in range(2):
        desk.broker.pause(desk.name("only"))
    desk.turn()
    desk.send("second", queue="only")
    desk.send("other")
    desk.get("other")
    late = "second" in desk.hand
    desk.send("third", queue="only")
    desk.send("another")
    desk.get("another")
    assert "third" not in desk.hand
    assert not late or isinstance(desk.broker.renewal, float)
    for _ in range(2):
        desk.broker.resume(desk.name("only"))
    desk.get("second", "third")
    assert sorted(desk.hand) == ["another", "first", "other", "second", "third"]


def test_a_queue_that_somebody_cancelled_is_not_resumed(
    desks: Callable[..., Desk], url_and_options: tuple[str, dict[str, Any]]
) -> None:
    """`celery control cancel_consumer` while it is paused wins."""
    url, options = url_and_options
    desk = desks(url, queues=("work", "only"), prefetch=10, **options)
    desk.broker.pause(desk.name("only"))
    desk.turn()
    desk.tasks.cancel_by_queue(desk.name("only"))
    desk.broker.resume(desk.name("only"))
    desk.send("hidden", queue="only")
    desk.send("other")
    desk.get("other")
    assert "hidden" not in desk.hand


def test_prefetch_rises_and_falls_exactly(desk: Desk) -> None:
    """One more for each that is held, and Celery's own count is not touched."""
    names = [f"n{number}" for number in range(PREFETCH + 3)]
    desk.send(*names)
    desk.get(*names[:PREFETCH])
    assert desk.broker.prefetch.rise(1) == 1
    assert desk.broker.prefetch.rise(2) == 2
    desk.get(*names)
    assert desk.qos.value == PREFETCH
    desk.broker.prefetch.fall(3)
    desk.broker.prefetch.fall(1)
    for hand in desk.came:
        hand.acknowledge()
    desk.forget()
    desk.turn()
    desk.send(*names)
    desk.get(*names[:PREFETCH])
    desk.turn()
    assert len(desk.came) == PREFETCH


@pytest.mark.parametrize("value", [0, 65_530])
def test_prefetch_is_never_turned_off(desk: Desk, value: int) -> None:
    """Without a limit there is nothing to raise; above the greatest it ends."""
    sent: list[int] = []

    def send(*, prefetch_count: int) -> None:
        sent.append(prefetch_count)

    desk.broker.prefetch._send = send
    desk.qos.value = value
    assert desk.broker.prefetch.rise(100) == (5 if value else 0)
    assert desk.broker.prefetch.rise(1) == 0
    desk.qos.increment_eventually(5)
    desk.qos.update()
    assert sent == [65_535 if value else 0]


def test_prefetch_that_rises_while_it_is_told_is_told_again(desk: Desk) -> None:
    """Telling RabbitMQ reads messages, and those may be held at once."""
    names = [f"n{number}" for number in range(PREFETCH + 2)]
    desk.send(*names)
    desk.get(*names[:PREFETCH])
    prefetch: Any = desk.broker
    send = prefetch.prefetch._send

    def and_hold(*, prefetch_count: int) -> None:
        send(prefetch_count=prefetch_count)
        if prefetch_count == PREFETCH + 1:
            desk.broker.prefetch.rise(1)

    prefetch.prefetch._send = and_hold
    desk.broker.prefetch.rise(1)
    desk.get(*names)
