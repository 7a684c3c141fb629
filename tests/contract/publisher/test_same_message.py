"""Both lanes put on the wire what Celery's own beat puts there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from celery import signals

from celery_pecker.brokers.publisher import message_template
from celery_pecker.kernel.clock import SYSTEM, new_id
from tests.contract.publisher.cases import CALLS, SLOW, Call, make_entry
from tests.contract.publisher.conftest import HEADER, Stand, Wire, dispatch
from tests.contract.publisher.lanes import Lane, lane_of

#: What the text of a message holds more than Celery's: our header.
OURS = f'"pecker": {json.dumps(HEADER)}'


def plain_text(text: str) -> str:
    """Return a message without our header: Celery 5.7 has it first, 5.6 last."""
    return text.replace(f"{OURS}, ", "").replace(f", {OURS}", "")


@contextmanager
def watched() -> Iterator[None]:
    """Somebody listens to each message before it is sent."""

    def listener(**_: Any) -> None:
        """Do nothing."""

    signals.before_task_publish.connect(listener)
    try:
        yield
    finally:
        signals.before_task_publish.disconnect(listener)


@pytest.mark.parametrize("name", CALLS)
def test_a_message_is_the_same_by_both_lanes_and_by_beat(
    name: str, wire: Wire, stand_on: Callable[..., Stand]
) -> None:
    """Beside id, expiry, delivery tag and our header not one byte differs."""
    stand = stand_on(wire)
    entry = make_entry(stand.app, name, CALLS[name], wire.prefix)
    slot = dispatch(name)
    stand.bind("bound")
    stand.known(entry)

    assert lane_of(stand.publisher, name).lane is Lane.FAST, lane_of(
        stand.publisher, name
    )
    stand.send([slot])
    fast = wire.take()
    stand.bind("bound")
    with watched():
        assert lane_of(stand.publisher, name).lane is Lane.SLOW
        stand.send([slot])
    slow = wire.take()
    stand.bind("bound")
    stand.plainly(make_entry(stand.app, name, CALLS[name], wire.prefix), slot.task_id)
    plain = wire.take()

    assert fast == slow
    if name == "expired long ago" and "amqp" in wire.url:
        assert not fast  # RabbitMQ has thrown it away
    else:
        assert OURS in fast[0][1]
    assert [(place, plain_text(text)) for place, text in fast] == plain


@pytest.mark.parametrize("name", ["nothing", "expires", "expires of the task"])
def test_the_slot_s_own_expiry_goes_before_the_entry_s(
    name: str, wire: Wire, stand_on: Callable[..., Stand]
) -> None:
    """Both lanes write the instant of the dispatch, and RabbitMQ's countdown to it."""
    stand = stand_on(wire)
    stand.known(make_entry(stand.app, name, CALLS[name], wire.prefix))
    slot = dispatch(name, expires=SYSTEM.now() + timedelta(hours=5, seconds=15))

    stand.send([slot])
    ((_, fast),) = wire.take()
    with watched():
        stand.send([slot])
    ((_, slow),) = wire.take()

    assert fast == slow
    assert '"expiration": "until it expires"' in fast


@pytest.mark.parametrize("mode", [1, 2])
def test_the_delivery_mode_of_the_app_is_kept(
    mode: int, wire: Wire, stand_on: Callable[..., Stand]
) -> None:
    """`task_default_delivery_mode` is in the message, as beat writes it."""
    stand = stand_on(wire, task_default_delivery_mode=mode)
    call: Call = ("plain", (), {}, {"queue": "bound"})
    slot = dispatch("one")
    stand.known(make_entry(stand.app, "one", call, wire.prefix))
    stand.send([slot])
    fast = wire.take()
    stand.plainly(make_entry(stand.app, "one", call, wire.prefix), slot.task_id)

    assert [(place, plain_text(text)) for place, text in fast] == wire.take()


@pytest.mark.parametrize("name", SLOW)
def test_what_cannot_be_repeated_goes_by_the_slow_lane(
    name: str, wire: Wire, stand_on: Callable[..., Stand]
) -> None:
    """It says why, and the message is the one that beat would send."""
    stand = stand_on(wire)
    call, reason = SLOW[name]
    slot = dispatch(name)
    stand.known(make_entry(stand.app, name, call, wire.prefix))

    verdict = lane_of(stand.publisher, name)
    assert verdict.lane is Lane.SLOW
    assert reason in verdict.reason
    stand.send([slot])
    ((place, sent),) = wire.take()
    stand.plainly(make_entry(stand.app, name, call, wire.prefix), slot.task_id)
    ((also, plain),) = wire.take()
    assert place == also
    if name != "countdown":  # counted from each one's own now
        assert plain_text(sent) == plain


def test_arguments_that_look_like_our_marks_are_left_alone(
    wire: Wire, stand_on: Callable[..., Stand], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if a user guessed a mark, the message is his."""
    guessed = UUID("00000000-0000-4000-8000-000000000001")
    stand = stand_on(wire)
    call: Call = ("plain", (str(guessed), guessed.hex), {}, {"shadow": str(guessed)})
    slot = dispatch("one")
    with monkeypatch.context() as patch:
        patch.setattr(message_template, "new_id", lambda: guessed)
        stand.known(make_entry(stand.app, "one", call, wire.prefix))
    stand.send([slot])
    sent = wire.take()
    stand.plainly(make_entry(stand.app, "one", call, wire.prefix), slot.task_id)

    assert [(place, plain_text(text)) for place, text in sent] == wire.take()


def test_an_exchange_of_another_type_is_looked_up_by_kombu(
    wire: Wire, stand_on: Callable[..., Stand]
) -> None:
    """Its message arrives where beat's does, whoever decides that."""
    stand = stand_on(wire)
    call: Call = ("plain", (), {}, {"queue": "heard", "routing_key": "a.b"})
    slot = dispatch("one")
    stand.known(make_entry(stand.app, "one", call, wire.prefix))
    stand.send([slot])
    sent = wire.take()
    if "redis" in wire.url:
        assert "topic" in lane_of(stand.publisher, "one").reason
        stand.bind("heard")
    stand.plainly(make_entry(stand.app, "one", call, wire.prefix), slot.task_id)

    assert sent
    assert [(place, plain_text(text)) for place, text in sent] == wire.take()


def test_an_entry_s_own_headers_are_not_written_to(
    wire: Wire, stand_on: Callable[..., Stand]
) -> None:
    """Celery's beat marks the headers of the entry it is given; ours gets a copy."""
    stand = stand_on(wire)
    entry = make_entry(stand.app, "one", CALLS["headers"], wire.prefix)
    before = json.dumps(entry.options)
    stand.known(entry)
    stand.send([dispatch("one")])
    with watched():
        stand.send([dispatch("one")])

    assert json.dumps(entry.options) == before


def test_many_messages_keep_their_order_and_their_ids(
    wire: Wire, stand_on: Callable[..., Stand]
) -> None:
    """A batch of more than a thousand is parted, and nobody sees where."""
    stand = stand_on(wire)
    stand.known(make_entry(stand.app, "one", CALLS["nothing"], wire.prefix))
    batch = [dispatch("one") for _ in range(2100)]
    stand.send(batch)

    found = [text for _, text in wire.take()]
    assert len(found) == len(batch)
    assert all(
        text.count(slot.task_id) == 3 for slot, text in zip(batch, found, strict=True)
    )
    assert len({slot.task_id for slot in batch}) == len(batch)
    assert str(new_id()) not in found[0]
