"""Where slots count from after an edit: none vanishes, none repeats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery.schedules import crontab

from celery_pecker.calendars import cron
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.schedules import InvalidField
from tests.integration.stored_schedules.conftest import Desk

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
LATER = "2999-01-01 00:00+00:00"


def test_the_first_slot_is_one_period_after_the_edit(desk: Desk) -> None:
    """As in Celery's beat."""
    row = desk.set(schedule=60)
    assert desk.hot()[0] == row.changed_at
    assert row.next_due == row.changed_at + MINUTE


def test_a_name_that_code_gave_up_goes_on_from_now(desk: Desk) -> None:
    """Its row may be there still: what ran does not run a second time."""
    desk.sql(
        "insert into pecker_tasks (name, executed_at, epoch)"
        " values ('report', now() - interval '1 hour', 9)"
    )
    row = desk.set(schedule=60)
    assert desk.hot()[:2] == (row.changed_at, 9)


def test_an_edit_of_arguments_leaves_the_slots_alone(desk: Desk) -> None:
    """Nor does the same schedule, written in another way, move them."""
    desk.set(schedule=cron("0 4 * * *", zone="Europe/Paris"), end=LATER)
    last = desk.won("report", 50 * HOUR)
    for schedule in (
        cron("0 4 * * *", zone="Europe/Paris"),
        {"zone": "Europe/Paris", "cron": "0 4 * * *"},
    ):
        desk.set(schedule=schedule, end=LATER, kwargs={"n": 1}, timeout=5, task="t")
        assert desk.hot()[:2] == (last, 7)
        assert not desk.asked()


@pytest.mark.parametrize(
    ("period", "new", "ago"),
    [(3600.0, 60.0, 30 * MINUTE), (3600.0, 7200.0, 30 * MINUTE), (60.0, 1.0, SECOND)],
)
def test_a_new_period_keeps_the_phase_and_skips_the_past(
    desk: Desk, period: float, new: float, ago: timedelta
) -> None:
    """Slots of the new period before the edit were never due."""
    desk.set(schedule=period)
    last = desk.won("report", ago)
    row = desk.set(schedule=new)
    executed = desk.hot()[0]
    step = timedelta(seconds=new)
    assert (executed - last) % step == timedelta(0)
    assert executed <= row.changed_at < executed + step
    assert not desk.asked()


@pytest.mark.parametrize("new", [1.0, 45.0, 86_400.0])
def test_a_due_slot_of_a_grid_is_the_first_of_the_new_one(
    desk: Desk, new: float
) -> None:
    """Exactly one is due: the last that nobody claimed does not vanish."""
    desk.set(schedule=60, timeout=60)
    last = desk.won("report", 150 * SECOND)
    due = last + 2 * MINUTE
    row = desk.set(schedule=new)
    executed, epoch, _, version = desk.hot()
    step = timedelta(seconds=new)
    slot = executed + step
    assert due <= slot <= row.changed_at < slot + step
    assert (slot - due) % step == timedelta(0)
    assert (epoch, version) == (7, 2)
    assert not desk.asked()


@pytest.mark.parametrize(
    "new",
    [crontab(minute="0", hour="4"), cron("0 0 4 * * *"), {"once": LATER}],
    ids=["crontab", "cron", "once"],
)
def test_a_due_slot_is_asked_for_where_the_new_schedule_is_no_grid(
    desk: Desk, new: Any
) -> None:
    """It keeps its instant, under which its run is known."""
    desk.set(schedule=60)
    last = desk.won("report", 90 * SECOND)
    row = desk.set(schedule=new, by="ann")
    assert desk.asked() == [last + MINUTE]
    assert desk.hot()[0] == row.changed_at
    [(epoch, by, claimed)] = desk.sql(
        "select epoch, asked_by, claimed_at = 'infinity' from pecker_pending"
    )
    assert (epoch, by, claimed) == (0, "ann", True)


def test_an_old_due_slot_is_asked_for_as_of_a_minute_ago(desk: Desk) -> None:
    """Schedulers give up what was asked for five minutes ago."""
    due = SYSTEM.now() - 2 * HOUR
    desk.set(schedule={"cron": f"{due.minute} {due.hour} * * *"})
    desk.won("report", 5 * HOUR)
    row = desk.set(schedule={"cron": "30 4 1 1 *"})
    [asked] = desk.asked()
    assert asked == row.changed_at - MINUTE


def test_slots_that_would_be_caught_up_are_all_asked_for(desk: Desk) -> None:
    """As many as the old policy runs, each once."""
    desk.set(schedule=60, misfire="catch_up", catch_up=3)
    last = desk.won("report", 10 * MINUTE + SECOND)
    row = desk.set(schedule=3600)
    asked = desk.asked()
    assert len(asked) == len(set(asked)) == 3
    assert asked[-1] == last + 10 * MINUTE
    assert desk.hot()[0] <= row.changed_at < desk.hot()[0] + HOUR


def test_a_slot_that_would_not_have_run_is_not_asked_for(desk: Desk) -> None:
    """By grace, by timeout, and while the entry is paused its slots pass."""
    chosen: dict[str, dict[str, Any]] = {
        "skip": {"misfire": "skip"},
        "grace": {"grace": 5},
        "timeout": {"timeout": 20},
        "paused": {"paused": True},
    }
    for name, fields in chosen.items():
        desk.set(name, schedule=60, **fields)
        desk.won(name, 90 * SECOND)
        desk.set(name, schedule=crontab(minute="0", hour="4"))
        assert not desk.asked(name), name
        desk.set(name, schedule=60, **fields)
        desk.won(name, 90 * SECOND)
        row = desk.set(name, schedule=3600)
        executed = desk.hot(name)[0]
        assert row.changed_at < executed + HOUR, name


def test_a_row_that_could_not_be_read_had_nothing_due(desk: Desk) -> None:
    """Nobody ran it: the edit that mends it begins now."""
    desk.set(schedule={"cron": "* * * * *"})
    desk.won("report", HOUR)
    desk.sql("update pecker_schedules set schedule = '{\"moon\": 1}'")
    row = desk.set(schedule={"cron": "* * * * *"})
    assert desk.hot()[0] == row.changed_at
    assert not desk.asked()


def test_a_start_to_come_is_the_first_slot(desk: Desk) -> None:
    """Of a grid too, which counts from it."""
    start = datetime(2999, 1, 1, 12, tzinfo=UTC)
    for schedule in (60.0, {"cron": "0 12 * * *"}, crontab(minute="0", hour="12")):
        row = desk.set(schedule=schedule, start=start)
        assert row.next_due == start
        executed = desk.hot()[0]
        assert executed <= row.changed_at  # ahead it would be a clock that stepped back


def test_a_start_gone_by_is_the_phase_of_a_grid(desk: Desk) -> None:
    """Whenever the edit was made."""
    start = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
    row = desk.set(schedule=60.0, start=start)
    assert row.next_due is not None
    assert (row.next_due - start) % MINUTE == timedelta(0)
    assert row.changed_at < row.next_due <= row.changed_at + MINUTE


@pytest.mark.parametrize("fields", [{}, {"end": LATER}], ids=["bare", "ends"])
def test_an_end_keeps_the_phase_of_an_interval(
    desk: Desk, fields: dict[str, Any]
) -> None:
    """Added or taken away; a slot that was due and unclaimed is due still."""
    other = {} if fields else {"end": LATER}
    desk.set(schedule=60, **fields)
    last = desk.won("report", 10 * SECOND)
    row = desk.set(schedule=60, **other)
    assert (desk.hot()[0], row.next_due) == (last, last + MINUTE)
    last = desk.won("report", 90 * SECOND)
    row = desk.set(schedule=60, **fields)
    assert (desk.hot()[0], row.next_due) == (last, last + MINUTE)
    assert not desk.asked()


def test_an_end_before_a_whole_period_leaves_the_slot_before_it(desk: Desk) -> None:
    """What is left to run is reckoned in the phase that it keeps."""
    desk.set(schedule=3600)
    last = desk.won("report", 50 * MINUTE)
    row = desk.set(schedule=3600, end=last + 61 * MINUTE)
    assert row.next_due == last + HOUR


def test_after_the_end_nothing_is_due(desk: Desk) -> None:
    """An edit that leaves no run at all is refused, and names the end."""
    row = desk.set(schedule=3600, end="2999-01-01 00:00+00:00")
    assert row.next_due is not None
    with pytest.raises(InvalidField, match="end leaves no run after now") as no:
        desk.set(schedule=3600, end=row.changed_at + MINUTE)
    assert no.value.field == "end"
    desk.sql("update pecker_schedules set ends_at = now() + interval '1 minute'")
    ended = desk.schedules.get("report")
    assert ended is not None
    assert ended.next_due is None
    assert desk.set(schedule=3600, end=ended.end, kwargs={"n": 1}).version == 2


def test_once_is_the_first_instant_after_the_edit(desk: Desk) -> None:
    """Of any schedule; an edit that leaves it alone keeps the instant."""
    row = desk.set(schedule={"cron": "0 4 * * *"}, once=True)
    assert row.once_at == row.next_due
    assert row.next_due is not None
    assert row.next_due - row.changed_at <= 24 * HOUR
    assert desk.set(schedule={"cron": "0 4 * * *"}, once=True).once_at == row.once_at
    assert row.policies == {}
    [(delivery,)] = desk.sql("select delivery from pecker_declarations")
    assert delivery == "at_least_once"


def test_once_by_its_instant(desk: Desk) -> None:
    """With a name of its own if none is chosen."""
    row = desk.schedules.once("proj.end", at="2999-01-01 00:00", args=[1])
    assert row.name.startswith("proj.end once ")
    assert row.schedule == {"once": "2999-01-01T00:00:00+00:00"}
    assert (row.once, row.done, row.args) == (True, False, [1])
    assert row.once_at == row.next_due == datetime(2999, 1, 1, tzinfo=UTC)


def test_an_instant_just_gone_by_is_now(desk: Desk) -> None:
    """A caller's clock may be behind; a minute is the most."""
    [(now,)] = desk.sql("select clock_timestamp()")
    row = desk.schedules.once("proj.end", at=now - 30 * SECOND, name="x")
    assert row.once_at is not None
    assert row.once_at > row.changed_at >= desk.hot("x")[0]
    assert row.once_at - row.changed_at < SECOND
    with pytest.raises(InvalidField, match="allowed is an instant to come"):
        desk.schedules.once("proj.end", at=now - 2 * MINUTE, name="y")


def test_what_has_run_once_is_done_until_an_edit(desk: Desk) -> None:
    """The same words schedule it anew."""
    first = desk.set(schedule={"cron": "0 4 * * *"}, once=True)
    desk.sql("update pecker_schedules set once_at = now() - interval '1 day'")
    desk.sql("update pecker_tasks set executed_at = now() - interval '1 day'")
    done = desk.schedules.get("report")
    assert done is not None
    assert (done.done, done.next_due) == (True, None)
    row = desk.set(schedule={"cron": "0 4 * * *"}, once=True)
    assert (row.done, row.once_at) == (False, first.once_at)


def test_a_clock_that_stepped_back_moves_no_row_back(desk: Desk) -> None:
    """Slots that ran are not offered a second time; the claim raises the era."""
    desk.set(schedule={"cron": "0 4 * * *"})
    ahead = desk.won("report", -HOUR)
    row = desk.set(schedule={"cron": "0 5 * * *"})
    assert desk.hot()[0] == ahead > row.changed_at
