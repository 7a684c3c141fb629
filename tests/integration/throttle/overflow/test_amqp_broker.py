"""On RabbitMQ a message is acknowledged when its copy is confirmed, not before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kombu import Queue

from tests.integration.throttle.overflow.desk import Desk


@pytest.fixture
def desk(amqp_server: str, desks: Callable[..., Desk]) -> Desk:
    """Give a desk on RabbitMQ."""
    return desks(amqp_server)


def test_nothing_is_acknowledged_before_it_is_confirmed(desk: Desk) -> None:
    """Sent and not confirmed, it is still ours."""
    desk.send("one")
    (held,) = desk.get("one")
    desk.broker.park("a", [held])
    assert desk.told == []
    assert not held.request.acknowledged
    desk.until(lambda: desk.told == [("parked", "one")], "it is confirmed")
    assert held.request.acknowledged
    desk.close()
    assert desk.length(desk.name("work")) == 0
    assert desk.length(desk.parking_of("a")) == 1


def test_a_parking_queue_that_was_deleted_is_made_again(desk: Desk) -> None:
    """RabbitMQ confirms what no queue took: it is kept, and parked the next time."""
    desk.send("one", "two", "three")
    desk.parks("one")
    desk.tasks.channel.queue_delete(desk.parking_of("a"))
    desk.forget_told()
    held = desk.get("two", "three")
    desk.broker.park("a", held)
    desk.until(lambda: len(desk.told) == 2, "both are told")
    assert sorted(desk.told) == [("kept", "three"), ("kept", "two")]
    assert not any(one.request.acknowledged for one in held)
    desk.forget_told()
    desk.broker.park("a", held)
    desk.until(lambda: len(desk.told) == 2, "both are told")
    assert desk.told == [("parked", "two"), ("parked", "three")]
    assert desk.length(desk.parking_of("a")) == 2


def test_a_deleted_parking_queue_ends_no_consumer(desk: Desk) -> None:
    """RabbitMQ cancels who consumes from it; the worker goes on, and attends again."""
    desk.broker.attend(["a"])
    desk.turn()
    desk.tasks.channel.queue_delete(desk.parking_of("a"))
    desk.send("one")
    desk.parks("one")
    desk.forget()
    desk.until(lambda: desk.attend("a") and desk.came, "it is attended again")
    assert desk.hand == ["one"]


def test_a_full_parking_queue_refuses(desk: Desk) -> None:
    """A negative confirmation: the message is kept."""
    Queue(
        desk.parking_of("a"),
        queue_arguments={"x-max-length": 1, "x-overflow": "reject-publish"},
    )(desk.tasks.channel).declare()
    desk.send("one", "two")
    held = desk.get("one", "two")
    desk.broker.park("a", held)
    desk.until(lambda: len(desk.told) == 2, "both are told")
    # Also: it was declared with other arguments than ours, by its owner
    assert sorted(desk.told) == [("kept", "two"), ("parked", "one")]
    desk.close()
    assert desk.length(desk.name("work")) == 1


def test_what_is_handed_back_comes_again(desk: Desk) -> None:
    """In its own queue, with the same id, not acknowledged."""
    desk.send("one", "two")
    held = desk.get("one", "two")
    for one in held:
        desk.broker.hand_back(one)
    assert desk.told == [("gone", "one"), ("gone", "two")]
    desk.forget()
    desk.get("one", "two")
    assert all(one.message.delivery_info["redelivered"] for one in desk.came)


def test_a_quorum_queue_parks_in_a_quorum_queue(
    amqp_server: str, desks: Callable[..., Desk]
) -> None:
    """As safe as where it came from; and its prefetch cannot be raised."""
    desk = desks(amqp_server, elastic=False, conf={"task_default_queue_type": "quorum"})
    assert not desk.broker.elastic
    assert desk.broker.prefetch.rise(1) == 0
    desk.send("one")
    desk.parks("one")
    desk.forget()
    desk.broker.attend(["a"])
    desk.get("one")
    arguments = {"x-queue-type": "quorum"}
    Queue(desk.parking_of("a"), queue_arguments=arguments)(desk.tasks.channel).declare()


def test_the_last_confirmations_are_waited_for(desk: Desk) -> None:
    """A worker that ends leaves no message in both queues."""
    names = [f"n{number}" for number in range(200)]
    desk.broker.prefetch.rise(200)
    desk.send(*names)
    desk.broker.park("a", desk.get(*names))
    desk.close()
    assert desk.length(desk.parking_of("a")) == 200
    assert desk.length(desk.name("work")) == 0
