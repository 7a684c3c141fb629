"""Signals of observers, in the order of what happened."""

from __future__ import annotations

from typing import Any

import pytest

from celery_pecker import signals
from celery_pecker.observers.hosts.events import Events
from celery_pecker.observers.hosts.tables import Outcome
from celery_pecker.observers.lease import Claimed
from celery_pecker.observers.model import Report

NAMES = ("observer_started", "observer_moved", "observer_stopped", "observer_parked")


def claimed(*, moved: bool) -> Claimed:
    """Return an observer that a host has taken."""
    return Claimed(
        id=1,
        epoch=7,
        name="btc",
        kind="watch",
        args={},
        weight=1,
        state=None,
        failures=0,
        delay=0.0,
        node="n",
        moved=moved,
    )


@pytest.mark.parametrize(
    ("report", "wanted"),
    [
        (Report.STOPPED, "ObserverStopped"),
        (Report.RETURNED, "ObserverStopped"),
        (Report.PARKED, "ObserverParked"),
        (Report.RELEASED, None),
    ],
)
def test_each_event_is_sent_to_its_listeners(
    report: Report, wanted: str | None
) -> None:
    """Begun, moved, ended; what is only handed over is begun elsewhere."""
    heard: list[Any] = []
    every = [getattr(signals, name) for name in NAMES]
    for one in every:
        one.connect(heard.append)
    events = Events()
    events.begun(claimed(moved=False))
    events.begun(claimed(moved=True))
    events.ended(claimed(moved=True), Outcome(id=1, epoch=7, report=report, error="x"))
    events.step()
    for one in every:
        one.disconnect(heard.append)
    names = [type(one).__name__ for one in heard]
    ended = [] if wanted is None else [wanted]
    assert names == ["ObserverStarted", "ObserverMoved", *ended]
    assert {one.epoch for one in heard} == {7}
