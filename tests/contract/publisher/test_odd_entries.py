"""An entry whose message cannot be built, or that the broker refuses, fails alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kombu
import pytest
import redis

from celery_pecker.kernel.errors import PublishRefused, PublishUncertain
from tests.contract.publisher.cases import CALLS, make_entry
from tests.contract.publisher.conftest import (
    RabbitWire,
    RedisWire,
    Stand,
    Wire,
    dispatch,
)

MakeStand = Callable[..., Stand]
GOOD = ("one", "two")
ODD: dict[str, dict[str, Any]] = {
    "compression": {"compression": "nope"},
    "serializer": {"serializer": "nope"},
}
FRAMED: dict[str, dict[str, Any]] = {
    "priority": {"priority": 300},
    "correlation": {"correlation_id": "c" * 300},
    "header": {"headers": {"odd": {1}}},
}
"""What py-amqp cannot frame: it calls that an error of the connection."""


def stand_with(stand_on: MakeStand, wire: Wire, options: dict[str, Any]) -> Stand:
    """Return a stand with two good entries, and an odd one between them."""
    stand = stand_on(wire)
    for name in GOOD:
        stand.known(make_entry(stand.app, name, CALLS["nothing"], wire.prefix))
    stand.known(make_entry(stand.app, "odd", ("plain", (), {}, options)))
    return stand


def send_all(stand: Stand) -> str:
    """Send one slot of each; only the odd one is refused; return why."""
    stand.publisher.ensure()
    with pytest.raises(PublishRefused) as caught:
        stand.send([dispatch("one"), dispatch("odd"), dispatch("two")])
    assert caught.value.done == {*GOOD}
    return caught.value.refused["odd"]


@pytest.mark.usefixtures("lane")
@pytest.mark.parametrize("option", ODD)
def test_one_that_cannot_be_built_holds_no_other_up(
    stand_on: MakeStand, wire: Wire, option: str
) -> None:
    """Celery calls the KeyError of an unknown codec an error of the connection."""
    stand = stand_with(stand_on, wire, ODD[option])
    for _ in range(2):
        assert "nope" in send_all(stand)
    assert len(wire.take()) == 4


@pytest.mark.usefixtures("lane")
@pytest.mark.parametrize("option", FRAMED)
def test_one_that_cannot_be_framed_holds_no_other_up(
    stand_on: MakeStand, rabbit_wire: RabbitWire, option: str
) -> None:
    """And the connection stands."""
    stand = stand_with(stand_on, rabbit_wire, FRAMED[option])
    channel = stand.publisher._broker.channel
    for _ in range(2):
        assert send_all(stand)
    assert stand.publisher._broker.channel is channel
    assert len(rabbit_wire.take()) == 4


def test_one_that_redis_refuses_holds_no_other_up(
    stand_on: MakeStand, redis_wire: RedisWire, lane: str
) -> None:
    """Its list is a key of another kind, as those of kombu's own are."""
    with redis.Redis.from_url(redis_wire.url) as client:
        stand_on(redis_wire).bind("bound")
        client.hset("bound", "no", "list")
        options = {"exchange": "direct", "routing_key": "rk"}
        stand = stand_with(stand_on, redis_wire, options)
        # A pipeline does not tell which of its commands failed. kombu before 5.7 has
        # none for messages: there the one is named at once.
        if lane == "slow" and hasattr(kombu.Producer, "batch"):
            with pytest.raises(PublishUncertain, match="refused one of them"):
                stand.send([dispatch("one"), dispatch("odd"), dispatch("two")])
            client.delete("celery")
        for _ in range(2):
            assert "WRONGTYPE" in send_all(stand)
        assert client.llen("celery") == 4


def test_why_one_cannot_be_built_is_returned(stand_on: MakeStand, wire: Wire) -> None:
    """A stored schedule is parked for it."""
    stand = stand_on(wire)

    def prepare(options: dict[str, Any]) -> str | None:
        entry = make_entry(stand.app, "one", ("plain", (), {}, options))
        return stand.publisher.prepare(entry)

    assert "nope" in str(prepare({"compression": "nope"}))
    assert "nope" in str(prepare({"serializer": "nope"}))
    assert prepare({"countdown": 3}) is None
    assert prepare({"priority": 3}) is None
