"""When a replica wakes, and for what."""

from __future__ import annotations

import pytest

from celery_pecker.brokers.publisher.lanes import Dispatch
from celery_pecker.schedules.engine.agenda import STAGGER_US, Agenda
from celery_pecker.schedules.engine.model import (
    ClaimedSlot,
    Delivery,
    Entry,
    Policy,
    Row,
    Slot,
)

SECOND = 1_000_000
SLACK = 5 * SECOND


def entry(name: str = "sweep", period_us: int = SECOND) -> Entry:
    """Return a plain interval entry."""
    return Entry(
        name=name,
        task="t",
        described="",
        period_us=period_us,
        policy=Policy(delivery=Delivery.AT_MOST_ONCE),
    )


def win(due_us: int) -> ClaimedSlot:
    """Return a win of that slot."""
    return ClaimedSlot(0, due_us, 1, 0, 0, paused=False)


def row(executed_us: int) -> Row:
    """Return what the table says."""
    return Row(executed_us, 1, 0, None)


def learned(*entries: Entry, at: int = 0) -> Agenda:
    """Return an agenda whose entries all last ran at that instant."""
    agenda = Agenda(entries, slack_us=SLACK)
    agenda.update({one.name: row(at) for one in entries}, at)
    return agenda


def test_it_wakes_at_the_due_instant_and_not_before() -> None:
    """One period after the last slot, to the microsecond."""
    agenda = learned(entry())
    assert agenda.next_wake_us() == SECOND
    assert agenda.due(SECOND - 1) == []
    assert [one.name for one in agenda.due(SECOND)] == ["sweep"]
    assert agenda.due(SECOND) == []


def test_a_winner_wakes_at_the_next_instant() -> None:
    """No stagger for the one who keeps the pace."""
    agenda = learned(entry())
    agenda.due(SECOND)
    agenda.won("sweep", win(SECOND), SECOND + 10)
    assert agenda.next_wake_us() == 2 * SECOND


def test_a_loser_asks_once_more_and_then_stays_behind_the_winner() -> None:
    """A takeover comes at most a tenth of the period, or 100 ms, late."""
    agenda = learned(entry())
    agenda.due(SECOND)
    assert agenda.lost("sweep", SECOND) is False
    assert agenda.next_wake_us() == SECOND + STAGGER_US
    agenda.due(SECOND + STAGGER_US)
    agenda.lost("sweep", SECOND + STAGGER_US)
    assert agenda.next_wake_us() == 2 * SECOND + STAGGER_US
    agenda.due(2 * SECOND + STAGGER_US)
    agenda.won("sweep", win(2 * SECOND), 2 * SECOND + STAGGER_US)
    assert agenda.next_wake_us() == 3 * SECOND


def test_the_stagger_of_a_short_period_is_a_tenth_of_it() -> None:
    """100 ms behind a 100 ms period would lose every other slot on a takeover."""
    agenda = learned(entry(period_us=100_000))
    agenda.due(100_000)
    agenda.lost("sweep", 100_000)
    assert agenda.next_wake_us() == 110_000


def test_a_row_beyond_slack_and_period_is_due_at_once() -> None:
    """The clock went back: waiting for the old time would be standing still."""
    agenda = learned(entry())
    agenda.update({"sweep": row(600 * SECOND)}, 10)
    assert agenda.next_wake_us() == 10


def test_a_daily_row_ten_minutes_ahead_is_not_in_trouble() -> None:
    """Within its period it waits; a new era would run yesterday's slot again."""
    day = 86_400 * SECOND
    agenda = learned(entry(period_us=day))
    agenda.update({"sweep": row(600 * SECOND)}, 10)
    assert agenda.next_wake_us() == 600 * SECOND + day


def test_an_old_plan_is_forgotten_when_a_new_one_is_made() -> None:
    """One wake-up per entry, however often it was planned anew."""
    agenda = learned(entry())
    for last in range(2, 50):
        agenda.update({"sweep": row(last)}, 0)
    assert agenda.next_wake_us() == 49 + SECOND
    assert len(agenda.due(10 * SECOND)) == 1


@pytest.mark.parametrize("noun", [Slot, ClaimedSlot, Dispatch])
def test_what_a_wake_up_makes_by_the_thousand_is_cheap_to_make(noun: type) -> None:
    """A frozen dataclass sets each field through a call: 2 us for a slot."""
    assert "__setattr__" not in vars(noun)


def test_an_edit_leaves_the_last_win_known() -> None:
    """A claim without answer would find it new, and send its slot twice."""
    agenda = learned(entry())
    agenda.won("sweep", win(SECOND), SECOND)
    agenda.add(entry(period_us=2 * SECOND), row(SECOND), SECOND)
    assert agenda.last_win("sweep") == (1, SECOND)
    agenda.drop("sweep")
    agenda.add(entry(), row(3 * SECOND), 3 * SECOND)
    assert agenda.last_win("sweep") == (1, 3 * SECOND)
