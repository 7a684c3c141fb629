"""Between this process's clock and the database's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from celery_pecker.kernel.clock import to_us
from celery_pecker.runs.instants import FRESH, Instants

HOST = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Stands where it is put; the host's clock is an hour off."""

    moment = 100.0

    def monotonic(self) -> float:
        """Return the moment."""
        return self.moment

    def now(self) -> datetime:
        """Return the host's idea of it."""
        return HOST + timedelta(seconds=self.moment - 100.0)


def test_without_an_answer_the_hosts_clock_must_do() -> None:
    """In both directions."""
    instants = Instants(Clock())
    assert not instants.fresh
    assert instants.after(2.0) == HOST + timedelta(seconds=2)
    assert instants.moment(HOST + timedelta(seconds=2)) == 102.0


def test_an_answer_counts_from_before_the_question() -> None:
    """What must be over by an instant is over before it; what is told is no later."""
    clock = Clock()
    instants = Instants(clock)
    truth = HOST + timedelta(hours=1)
    clock.moment = 100.5
    instants.observe(to_us(truth), sent=100.0)

    assert instants.fresh
    assert instants.moment(truth + timedelta(seconds=1)) <= 101.0
    assert instants.after(1.0) <= truth + timedelta(seconds=1.5)
    clock.moment += FRESH
    assert not instants.fresh


def test_no_answer_is_not_asked_for_again_at_once() -> None:
    """Else each task would wait for a database that is away."""
    instants = Instants(Clock())
    instants.missed()
    assert instants.fresh
    assert instants.after(0.0) == HOST
