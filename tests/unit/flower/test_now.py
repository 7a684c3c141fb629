"""The page Now shows the last look, and does not take it for a newer one."""

from __future__ import annotations

import threading

import pytest
from celery import Celery

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.lease import SECOND
from celery_pecker.surfaces.findings.look import Report
from celery_pecker.surfaces.findings.model import ok
from celery_pecker.surfaces.flower import now
from celery_pecker.testing import eventually
from celery_pecker.testing.manual import ManualClock

WELL = Report(now_us=0, findings=[ok("isolation", "read committed")], causes=())


class Hanging(now.Watch):
    """Looks that wait until the test lets them go on."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(Celery("proj", set_as_current=False), clock)
        self.clock = clock
        self.go_on = threading.Event()

    def _look(self) -> Report:
        assert self.go_on.wait(30.0)
        return WELL


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Hanging:
    """Give looks by a clock of the test's; the first page waits for a moment only."""
    monkeypatch.setattr(now, "FIRST", 0.1)
    clock = ManualClock(SYSTEM.now())
    clock.advance_us(10 * SECOND)
    return Hanging(clock)


def test_before_the_first_look_nothing_is_said_to_be_well(watch: Hanging) -> None:
    """A server that hangs from the beginning is not shown in green."""
    data = now.read(watch, {})
    assert data["sentence"] == "The first look goes on …"
    assert not data["rows"]["checks"]
    watch.go_on.set()
    eventually(lambda: watch.report() is not None, 30.0, "the look has ended")
    assert now.read(watch, {})["sentence"] == "Nothing is wrong"


def test_a_look_that_does_not_end_says_so(watch: Hanging) -> None:
    """What was seen half a minute ago is no news."""
    watch.go_on.set()
    eventually(lambda: watch.report() is not None, 30.0, "the first look has ended")
    watch.go_on.clear()
    watch.clock.advance_us(5 * SECOND)
    assert now.read(watch, {})["wrong"] == 0
    watch.clock.advance_us(round(now.STALE) * SECOND)
    data = now.read(watch, {})
    assert data["wrong"] == 1
    assert data["rows"]["causes"][0]["title"] == "The page does not see what is so now"
    watch.go_on.set()
    eventually(lambda: now.read(watch, {})["wrong"] == 0, 30.0, "it sees again")
