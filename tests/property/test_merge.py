"""Reports of a slot say the same together in whatever order they come."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.schedules.history.merge import FORWARD, merge, rank
from celery_pecker.schedules.history.report import Report, SlotReport

HOLDERS = [uuid.UUID(int=number) for number in range(3)]
TOLD = st.builds(
    SlotReport,
    due_us=st.sampled_from([10, 20]),
    era=st.sampled_from([0, 1]),
    epoch=st.integers(0, 3),
    at_us=st.integers(10, 30),
    report=st.sampled_from(Report),
    holder=st.sampled_from(HOLDERS),
)
MANY = st.lists(TOLD, max_size=12)


@given(MANY, st.randoms())
def test_order_and_repetition_say_nothing(
    reports: list[SlotReport], shuffle: st.DataObject
) -> None:
    """A process that was frozen reports late, and pages are written twice."""
    twice = reports + reports
    shuffle.shuffle(twice)  # type: ignore[attr-defined]  # a random.Random
    assert merge(twice) == merge(reports)


@given(MANY, TOLD)
def test_a_fate_only_goes_forward(reports: list[SlotReport], more: SlotReport) -> None:
    """No later word takes back what was known."""
    before, after = merge(reports), merge([*reports, more])
    for slot, fate in before.items():
        assert rank(after[slot].state) >= rank(fate.state)


def test_who_was_called_lost_may_report_that_it_goes_on() -> None:
    """It was frozen, or cut off; a report of before is none of that."""
    lost, earlier, later, ended = (
        SlotReport(10, 0, 1, at_us, report, HOLDERS[0])
        for at_us, report in (
            (20, Report.LOST),
            (15, Report.RUNNING),
            (25, Report.RUNNING),
            (12, Report.FAILED),
        )
    )
    assert merge([earlier, lost])[0, 10].state is Report.LOST
    assert merge([later, lost, earlier])[0, 10].state is Report.RUNNING
    assert merge([ended, later, lost])[0, 10].state is Report.FAILED


def test_every_report_has_its_place() -> None:
    """One without a place would fail where people look."""
    assert sorted(FORWARD) == sorted(Report)
