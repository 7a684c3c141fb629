"""What is decided about slots without any I/O."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.schedules.engine import bounds, misfire
from celery_pecker.schedules.engine.model import (
    NAMESPACE,
    Delivery,
    Misfire,
    Policy,
    task_id,
)
from tests.oracle.grid import claimable, upcoming

SECOND = 1_000_000
instants = st.integers(min_value=-(10**15), max_value=4 * 10**15)
periods = st.integers(min_value=100_000, max_value=400 * 86_400 * SECOND)


@given(instants, periods, instants)
def test_the_latest_slot_is_on_the_grid_and_the_last_not_after_now(
    anchor: int, period: int, now: int
) -> None:
    """A slot lies whole periods from the anchor, less than one before now."""
    slot = bounds.latest(anchor, period, now)
    assert (slot - anchor) % period == 0
    assert slot <= now < slot + period
    assert upcoming(anchor, period, now) == slot + period


@given(instants, periods, st.lists(st.integers(0, 10**13), max_size=8))
def test_every_slot_is_either_taken_or_counted(
    start: int, period: int, pauses: list[int]
) -> None:
    """Over any history of wake-ups, taken plus passed is due, each slot once."""
    executed, now, taken, passed = start, start, [], 0
    for pause in pauses:
        now += pause
        found = claimable(executed, period, now, ahead_us=5 * SECOND)
        if found is not None:
            executed, missed, stepped = found
            assert not stepped
            taken.append(executed)
            passed += missed
    assert taken == sorted(set(taken))
    assert len(taken) + passed == (executed - start) // period
    assert executed + period > now or not pauses


@given(instants, periods, st.integers(1, 50), st.integers(0, 200))
def test_catching_up_takes_the_last_slots_one_by_one(
    start: int, period: int, depth: int, late: int
) -> None:
    """After any pause the last `depth` missed slots are taken, oldest first."""
    now = start + late * period
    executed, taken = start, []
    while found := claimable(executed, period, now, ahead_us=0, depth=depth):
        executed = found[0]
        taken.append(executed)
    assert len(taken) == min(depth, late)
    assert taken == [now - n * period for n in reversed(range(len(taken)))]


@given(instants, periods, st.integers(1, 10**13))
def test_a_clock_that_went_back_further_than_it_may_is_noticed(
    now: int, period: int, ahead: int
) -> None:
    """Up to the slack nobody claims; beyond, the slot is the grid's before now."""
    slack = 5 * SECOND
    found = claimable(now + ahead, period, now, ahead_us=slack)
    if ahead <= slack:
        assert found is None
    else:
        assert found is not None
        slot, passed, stepped = found
        assert stepped
        assert passed == 0
        assert slot <= now < slot + period


@given(st.integers(1, 5_000), st.integers(1, 40), st.integers(1, 10**7))
def test_of_many_missed_instants_the_last_are_chosen(
    missed: int, depth: int, gap: int
) -> None:
    """The choice is the oldest of the last `depth`, whatever the number missed."""
    gap = max(gap, SECOND * 2)
    first = 10**15
    now = first + (missed - 1) * gap + 1
    slot, passed = misfire.choose(
        lambda last: first + ((last - first) // gap + 1) * gap, first, now, depth
    )
    if missed <= max(misfire.COUNTED, depth):
        wanted = min(depth, missed)
        assert slot == first + (missed - wanted) * gap
        assert passed == missed - wanted
    else:
        assert slot == first + (missed - 1) * gap
        assert passed >= misfire.COUNTED


@given(st.integers(0, 10**9), st.integers(1, 10**8))
def test_looking_back_finds_the_latest_instant(now: int, gap: int) -> None:
    """Looking back finds the same slot as the grid has."""
    gap = max(gap, 2 * SECOND)
    now = 10**15 + now * 1000

    def following(last: int) -> int:
        return upcoming(0, gap, last)

    assert misfire.latest_before(following, now) == bounds.latest(0, gap, now)


def test_a_slot_runs_within_its_grace_and_deadline_only() -> None:
    """Grace bounds how late a slot may be found, timeout how late it may start."""
    plain = Policy(delivery=Delivery.AT_MOST_ONCE)
    assert misfire.runs(plain, 0, 10**15)
    graced = Policy(delivery=Delivery.AT_MOST_ONCE, grace_us=5)
    assert misfire.runs(graced, 0, 5)
    assert not misfire.runs(graced, 0, 6)
    timed = Policy(delivery=Delivery.AT_MOST_ONCE, timeout_us=5)
    assert misfire.runs(timed, 0, 4)
    assert not misfire.runs(timed, 0, 5)


def test_only_skip_has_a_grace_of_its_own() -> None:
    """A tenth of the period, at least a second, at most a minute."""
    assert misfire.default_grace_us(Misfire.COALESCE, SECOND) is None
    assert misfire.default_grace_us(Misfire.SKIP, SECOND) == SECOND
    assert misfire.default_grace_us(Misfire.SKIP, 100 * SECOND) == 10 * SECOND
    assert misfire.default_grace_us(Misfire.SKIP, None) == 6 * SECOND
    assert misfire.default_grace_us(Misfire.SKIP, 86_400 * SECOND) == 60 * SECOND


@given(st.text(), st.text(), st.integers(), st.integers(0, 10**6))
def test_the_task_id_is_the_uuid5_that_anybody_can_work_out(
    schema: str, name: str, due_us: int, era: int
) -> None:
    """Spelled out for speed, it is the standard one."""
    told = f"{schema}\0{name}\0{due_us}\0{era}"
    assert task_id(schema, name, due_us, era) == str(uuid.uuid5(NAMESPACE, told))


def test_the_task_id_of_a_slot_never_changes() -> None:
    """The form is a promise to everybody who deduplicates by it (I5)."""
    known = task_id("public", "sweep", 1_767_225_600_000_000, 0)
    assert known == "d8202e06-3416-5586-a5c7-da2c699f36e7"
    others = {
        task_id("public", "sweep", 1_767_225_600_000_000, 1),
        task_id("public", "sweep", 1_767_225_600_000_001, 0),
        task_id("other", "sweep", 1_767_225_600_000_000, 0),
        task_id("public", "sweeps", 1_767_225_600_000_000, 0),
    }
    assert len(others | {known}) == 5  # four others and it
