"""RabbitMQ refuses, hangs, goes away: what is confirmed is known, nothing is resent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from celery import signals
from kombu import Connection

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.errors import BrokerUnavailable, PublishUncertain
from celery_pecker.testing import eventually
from tests.contract.publisher.cases import CALLS, Call, make_entry
from tests.contract.publisher.conftest import RabbitWire, Stand, dispatch
from tests.contract.publisher.lanes import Lane, lane_of
from tests.proxy import Proxy

MakeStand = Callable[..., Stand]
TIMEOUT = 1.0
"""Seconds for an answer, where one stays away; else those of `stand_on`."""
BOUND = 20 * TIMEOUT


@contextmanager
def bounded() -> Iterator[None]:
    """What happens here ends in time."""
    started = SYSTEM.monotonic()
    yield
    assert SYSTEM.monotonic() - started < BOUND


@pytest.fixture
def proxy(rabbit_wire: RabbitWire) -> Iterator[Proxy]:
    """Give a way to RabbitMQ that can be muted, hung and cut."""
    with Proxy.before(rabbit_wire.url) as way:
        yield way


@pytest.fixture
def behind(proxy: Proxy, rabbit_wire: RabbitWire) -> RabbitWire:
    """Give the same RabbitMQ, reached by the proxy."""
    return replace(rabbit_wire, url=proxy.url)


def ready(stand: Stand, **calls: Call) -> Stand:
    """Return the stand with entries known: `one`, and those given."""
    for name, call in {"one": CALLS["nothing"], **calls}.items():
        stand.known(make_entry(stand.app, name, call, stand.wire.prefix))
    return stand


def test_a_lost_confirm_is_uncertain_and_nothing_is_sent_again(
    behind: RabbitWire,
    rabbit_wire: RabbitWire,
    proxy: Proxy,
    stand_on: MakeStand,
    lane: str,
) -> None:
    """The messages have arrived, once, and nobody may say so."""
    stand = ready(stand_on(behind, timeout=TIMEOUT))
    stand.send([dispatch("one")])
    proxy.mute()
    with bounded(), pytest.raises(PublishUncertain) as caught:
        stand.send([dispatch("one"), dispatch("one")])
    assert not caught.value.retry_safe
    assert not caught.value.done
    with bounded(), pytest.raises(BrokerUnavailable):
        stand.publisher.ensure()
    proxy.open()
    stand.send([dispatch("one")])

    assert len(rabbit_wire.take()) == 4


def test_a_broker_that_never_answers_ends_every_call_in_time(
    behind: RabbitWire, proxy: Proxy, stand_on: MakeStand, lane: str
) -> None:
    """Connecting, publishing and closing are bounded."""
    stand = ready(stand_on(behind, timeout=TIMEOUT))
    stand.send([dispatch("one")])
    proxy.hang()
    with bounded(), pytest.raises(PublishUncertain):
        stand.send([dispatch("one")])
    with bounded(), pytest.raises(BrokerUnavailable):
        stand.publisher.ensure()
    with bounded():
        stand.publisher.close()


def test_a_connection_cut_in_between_costs_a_reconnect_and_nothing_else(
    behind: RabbitWire,
    rabbit_wire: RabbitWire,
    proxy: Proxy,
    stand_on: MakeStand,
    lane: str,
) -> None:
    """It was idle when it broke: nothing was under way."""
    stand = ready(stand_on(behind))
    stand.send([dispatch("one")])
    proxy.cut()
    eventually(lambda: proxy.connections() == 0)
    stand.send([dispatch("one")])

    assert len(rabbit_wire.take()) == 2


def test_nobody_there_is_said_before_anything_is_sent(
    behind: RabbitWire, proxy: Proxy, stand_on: MakeStand, lane: str
) -> None:
    """A broker that went away while idle is missed by the next call."""
    stand = ready(stand_on(behind))
    stand.send([dispatch("one")])
    proxy.refuse()
    with bounded(), pytest.raises(BrokerUnavailable):
        stand.send([dispatch("one")])
    proxy.open()
    stand.send([dispatch("one")])


def test_a_failover_list_is_walked_through(
    behind: RabbitWire, rabbit_wire: RabbitWire, proxy: Proxy, stand_on: MakeStand
) -> None:
    """The next URL is used when the first refuses."""
    both = replace(rabbit_wire, url=f"{behind.url};{rabbit_wire.url}")
    stand = ready(stand_on(both))
    stand.send([dispatch("one")])
    proxy.refuse()
    stand.send([dispatch("one")])

    assert len(rabbit_wire.take()) == 2


def test_a_queue_declared_otherwise_hurts_its_own_entry_only(
    rabbit_wire: RabbitWire, stand_on: MakeStand, lane: str
) -> None:
    """RabbitMQ closes a channel over it; the others' messages are on another."""
    with Connection(rabbit_wire.url) as connection:
        channel: Any = connection.default_channel
        channel.queue_declare(f"{rabbit_wire.prefix}heard", durable=False)
    stand = ready(stand_on(rabbit_wire), bad=("plain", (), {}, {"queue": "heard"}))
    assert lane_of(stand.publisher, "bad").lane is Lane.SLOW
    for _ in range(2):
        with pytest.raises(PublishUncertain, match=r"bad: .*PRECONDITION") as caught:
            stand.send([dispatch("bad"), dispatch("one"), dispatch("bad")])
        assert caught.value.done == {"one"}

    assert len(rabbit_wire.take()) == 2


def test_a_missing_exchange_is_seen_when_the_message_is_built(
    rabbit_wire: RabbitWire, stand_on: MakeStand
) -> None:
    """Its entry is slow; in company it costs the others nothing."""
    nowhere: Call = ("plain", (), {}, {"exchange": "nowhere", "routing_key": "x"})
    stand = ready(stand_on(rabbit_wire), bad=nowhere)

    assert "NOT_FOUND" in lane_of(stand.publisher, "bad").reason
    with pytest.raises(PublishUncertain, match=r"bad: .*NOT_FOUND") as caught:
        stand.send([dispatch("bad"), dispatch("one")])
    assert caught.value.done == {"one"}


def test_whoever_closes_the_channel_is_found_and_kept_apart(
    rabbit_wire: RabbitWire, stand_on: MakeStand, lane: str
) -> None:
    """An expiry in eleven years is one that RabbitMQ closes the channel over."""
    bad: Call = ("plain", (), {}, {"expires": 11 * 366 * 86_400})
    stand = ready(stand_on(rabbit_wire), bad=bad, two=CALLS["arguments"])

    def batch() -> list[Any]:
        return [dispatch("one"), dispatch("bad"), dispatch("two")]

    with pytest.raises(PublishUncertain, match=r"PRECONDITION|refused one of them"):
        stand.send(batch())
    rabbit_wire.take()
    for _ in range(3):
        with pytest.raises(PublishUncertain, match=r"bad: .*PRECONDITION") as caught:
            stand.send(batch())
        assert caught.value.done == {"one", "two"}
        assert len(rabbit_wire.take()) == 2
    if lane == "fast":
        assert lane_of(stand.publisher, "one").lane is Lane.FAST
        assert lane_of(stand.publisher, "bad").lane is Lane.SLOW


def test_a_message_that_no_queue_takes_is_dropped_as_ever(
    rabbit_wire: RabbitWire, stand_on: MakeStand, lane: str
) -> None:
    """An exchange with no queue for the key: RabbitMQ confirms, Celery is content."""
    lost: Call = ("plain", (), {}, {"exchange": "direct", "routing_key": "nobody's"})
    stand = stand_on(rabbit_wire)
    stand.bind("bound")
    ready(stand, lost=lost).send([dispatch("lost"), dispatch("one")])

    assert len(rabbit_wire.take()) == 1


def test_a_mandatory_message_that_no_queue_takes_is_told(
    rabbit_wire: RabbitWire, stand_on: MakeStand, lane: str
) -> None:
    """RabbitMQ returns it: it has not arrived, all others have."""
    options = {"exchange": "direct", "routing_key": "nobody's", "mandatory": True}
    stand = stand_on(rabbit_wire)
    stand.bind("bound")
    ready(stand, lost=("plain", (), {}, options))
    with pytest.raises(PublishUncertain, match="lost: no queue took it") as caught:
        stand.send([dispatch("lost"), dispatch("one")])
    assert caught.value.done == {"one"}

    assert len(rabbit_wire.take()) == 1


def test_a_full_queue_says_no_and_that_is_told(
    rabbit_wire: RabbitWire, stand_on: MakeStand, lane: str
) -> None:
    """A nack is no arrival; the other queue's message has arrived."""
    queue, key = f"{rabbit_wire.prefix}made-up", f"{rabbit_wire.prefix}key"
    limit = {"x-max-length": 1, "x-overflow": "reject-publish"}
    with Connection(rabbit_wire.url) as connection:
        channel: Any = connection.default_channel
        channel.queue_declare(queue, auto_delete=False, arguments=limit)
        channel.queue_bind(queue, "amq.direct", key)
    stand = ready(stand_on(rabbit_wire))
    entry = make_entry(stand.app, "full", CALLS["nothing"])
    entry.options = {"exchange": "amq.direct", "routing_key": key}
    stand.known(entry)
    stand.send([dispatch("full")])
    batch = [dispatch(name) for name in ("one", "full", "one", "full", "two", "one")]
    stand.known(make_entry(stand.app, "two", CALLS["arguments"], rabbit_wire.prefix))
    with pytest.raises(PublishUncertain, match=r"full: .*nack") as caught:
        stand.send(batch)
    assert caught.value.done == {"one", "two"}


def test_confirms_that_the_user_wants_are_not_asked_for_twice(
    rabbit_wire: RabbitWire, stand_on: MakeStand, lane: str
) -> None:
    """`confirm_publish` in broker_transport_options changes nothing of ours."""
    options = {"confirm_publish": True}
    stand = ready(stand_on(rabbit_wire, broker_transport_options=options))
    stand.send([dispatch("one"), dispatch("one")])
    stand.send([dispatch("one")])

    assert len(rabbit_wire.take()) == 3


def test_a_declaration_without_an_answer_ends_in_time(
    behind: RabbitWire, proxy: Proxy, stand_on: MakeStand
) -> None:
    """A queue that may vanish is declared before each batch, as Celery does."""
    call = CALLS["expiring queue, declared each time"]
    stand = ready(stand_on(behind, timeout=TIMEOUT), brief=call)
    stand.send([dispatch("brief")])
    proxy.hang()
    with bounded(), pytest.raises(BrokerUnavailable, match="declaring"):
        stand.send([dispatch("brief")])


def test_kombu_does_not_send_again_by_itself(
    behind: RabbitWire, rabbit_wire: RabbitWire, proxy: Proxy, stand_on: MakeStand
) -> None:
    """A connection that breaks between two messages ends the batch there."""
    stand = ready(stand_on(behind))
    calls = []

    def cut(**_: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            eventually(lambda: rabbit_wire.depth("celery") == 1)
            proxy.cut()
            eventually(lambda: proxy.connections() == 0)

    signals.before_task_publish.connect(cut)
    try:
        with pytest.raises(PublishUncertain) as caught:
            stand.send([dispatch("one") for _ in range(3)])
    finally:
        signals.before_task_publish.disconnect(cut)

    assert not caught.value.retry_safe
    assert len(calls) == 2
    assert len(rabbit_wire.take()) == 1
