"""What the guard's script does in Redis, message by message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue
from redis import Redis

from celery_pecker.brokers.redis.guard import Disposition, Held, settle
from celery_pecker.kernel.clock import SYSTEM

ROUTED = Queue("routed", Exchange("orders", type="direct"), routing_key="new")


@pytest.fixture(params=["", "tenant-"])
def channel(redis_url: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give a channel; with and without a prefix before all of its keys."""
    options = {"global_keyprefix": request.param}
    with Connection(redis_url, transport_options=options) as connection:
        yield connection.default_channel


def deliver(channel: Any, *bodies: str, queue: str = "work", **options: Any) -> Any:
    """Send messages and fetch them, as a worker that then loses its connection."""
    producer = channel.connection.client.Producer(serializer="json")
    for body in bodies:
        producer.publish(body, routing_key=queue, **options)
    return fetch(channel, *bodies, queue=queue)


def fetch(channel: Any, *bodies: str, queue: str = "work") -> Any:
    """Fetch messages and see that they are these, in this order."""
    messages = [channel.basic_get(queue) for _ in bodies]
    assert [message.payload for message in messages] == list(bodies)
    return messages


def lost(messages: Any, disposition: Disposition, **changes: Any) -> list[Held]:
    """Return the messages as the guard holds them."""
    at = changes.pop("lost_at", SYSTEM.now().timestamp())
    return [
        Held(
            tag=m.delivery_tag,
            message=m,
            lost_at=at,
            disposition=disposition,
            **changes,
        )
        for m in messages
    ]


def done(channel: Any, held: list[Held]) -> list[bool]:
    """Settle and return what was found, in order."""
    return [found for _, found in settle(channel, held)]


def recorded(channel: Any) -> tuple[int, int]:
    """Return how many messages Redis counts as delivered: in the hash, in the index."""
    # Not kombu's client: which commands it prefixes differs from version to version
    client, prefix = Redis(connection_pool=channel.pool), channel.global_keyprefix
    return client.hlen(f"{prefix}unacked"), client.zcard(f"{prefix}unacked_index")


def test_what_goes_back_is_first_in_its_queue_and_in_order(channel: Any) -> None:
    """The next worker gets the messages as if nobody had fetched them."""
    messages = deliver(channel, "one", "two")
    producer = channel.connection.client.Producer(serializer="json")
    producer.publish("three", routing_key="work")

    assert done(channel, lost(reversed(messages), Disposition.BACK)) == [True, True]

    assert recorded(channel) == (0, 0)
    again = fetch(channel, "one", "two", "three")
    assert again[0].headers["redelivered"]
    assert [m.delivery_tag for m in again[:2]] == [m.delivery_tag for m in messages]


def test_a_rejected_message_goes_to_the_end(channel: Any) -> None:
    """A run that asks for another one lets the others pass, as in kombu."""
    messages = deliver(channel, "one")
    producer = channel.connection.client.Producer(serializer="json")
    producer.publish("two", routing_key="work")

    assert done(channel, lost(messages, Disposition.LAST)) == [True]

    fetch(channel, "two", "one")


def test_a_finished_message_is_forgotten(channel: Any) -> None:
    """It is neither recorded nor in a queue."""
    messages = deliver(channel, "one")

    assert done(channel, lost(messages, Disposition.DONE)) == [True]

    assert recorded(channel) == (0, 0)
    assert channel.basic_get("work") is None


@pytest.mark.parametrize("disposition", [Disposition.BACK, Disposition.DONE])
def test_what_was_delivered_anew_is_left_to_its_new_holder(
    channel: Any, disposition: Disposition
) -> None:
    """The visibility timeout gave it to another worker after we lost it."""
    messages = deliver(channel, "one")
    before = SYSTEM.now().timestamp() - 60

    assert done(channel, lost(messages, disposition, lost_at=before)) == [False]

    assert recorded(channel) == (1, 1)
    assert channel.basic_get("work") is None


def test_settling_twice_gives_back_once(channel: Any) -> None:
    """A repeated settlement, after a lost answer, adds nothing."""
    held = lost(deliver(channel, "one"), Disposition.BACK)

    assert done(channel, held) == [True]
    assert done(channel, held) == [False]

    fetch(channel, "one")
    assert channel.basic_get("work") is None


def test_a_message_that_was_never_recorded_is_put_back(channel: Any) -> None:
    """Only the worker's memory knows of it."""
    messages = deliver(channel, "one")
    channel.qos.ack(messages[0].delivery_tag)

    assert done(channel, lost(messages, Disposition.BACK)) == [False]
    assert done(channel, lost(messages, Disposition.BACK, recorded=False)) == [True]

    fetch(channel, "one")


def test_priority_and_route_are_kept(channel: Any) -> None:
    """It goes back to the queue and the step it came from."""
    ROUTED(channel).declare()
    producer = channel.connection.client.Producer(serializer="json")
    producer.publish("one", exchange="orders", routing_key="new", priority=6)
    messages = fetch(channel, "one", queue="routed")

    assert done(channel, lost(messages, Disposition.BACK)) == [True]

    assert channel._create_client().llen(channel._q_for_pri("routed", 6)) == 1


def test_a_message_without_a_queue_stays_recorded(channel: Any) -> None:
    """Its bindings are gone: better found by the visibility timeout than dropped."""
    messages = deliver(channel, "one")
    messages[0].delivery_info["exchange"] = "unheard of"

    assert done(channel, lost(messages, Disposition.BACK)) == []

    assert recorded(channel) == (1, 1)
