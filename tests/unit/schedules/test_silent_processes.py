"""Which process lives are silent: judged by looks that follow one another."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from celery_pecker.schedules.history.life import (
    LONGEST_GAP,
    LOOK_INTERVAL,
    SILENT,
    SilentProcesses,
)

ONE, TWO = (uuid.UUID(int=number) for number in (1, 2))
THEN = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_row_that_stays_the_same_for_a_minute_is_silent() -> None:
    """And no sooner; one that is renewed meanwhile begins anew."""
    silence, now, answers = SilentProcesses(), 1000.0, []
    while now <= 1000.0 + SILENT:
        renewed = THEN + timedelta(seconds=now)
        answers.append(silence.update(now, [(ONE, THEN), (TWO, renewed)]))
        now += LOOK_INTERVAL
    assert answers == [[], [], [], [], [(ONE, THEN)]]


def test_who_has_not_looked_meanwhile_knows_nothing() -> None:
    """It was frozen, or PostgreSQL was away: the workers may have been as well."""
    silence = SilentProcesses()
    assert not silence.update(0.0, [(ONE, THEN)])
    assert not silence.update(SILENT + LONGEST_GAP, [(ONE, THEN)])
    assert not silence.update(SILENT + LONGEST_GAP + 1, [(ONE, THEN)])


def test_looks_have_a_pace() -> None:
    """The first is due at once."""
    silence = SilentProcesses()
    assert silence.due(0.0)
    silence.update(0.0, [])
    assert not silence.due(LOOK_INTERVAL - 1)
    assert silence.due(LOOK_INTERVAL)
