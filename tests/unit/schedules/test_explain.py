"""Why did it not run: each verdict, and what no answer may claim."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.schedules.history.report import Report
from celery_pecker.schedules.overview import EntryRow, SlotRow
from celery_pecker.schedules.overview.explain import explain
from celery_pecker.schedules.overview.model import (
    BadEnd,
    EntryDetail,
    EntryOutcomes,
    Fence,
    PendingRow,
    ReplicaRow,
)
from celery_pecker.schedules.overview.slot_verdicts import alive, count_of_schedulers
from celery_pecker.schedules.overview.verdicts import REPORTED, Explanation, Question

SECOND = 1_000_000
NOW = 1_000_000 * SECOND
HERE, GONE = uuid.UUID(int=1), uuid.UUID(int=2)


def at(us: int) -> str:
    """Show an instant as seconds from now."""
    return f"t{(us - NOW) / SECOND:+g}"


def row(**given: Any) -> EntryRow:
    """Return an entry that was won half a second ago."""
    usual: dict[str, Any] = {
        "name": "sweep",
        "task": "proj.sweep",
        "schedule": "every second",
        "run": "dispatch",
        "delivery": "at_most_once",
        "period_us": SECOND,
        "timeout_us": None,
        "last_us": NOW - SECOND // 2,
        "next_us": NOW + SECOND // 2,
        "late_us": None,
        "overdue_us": 0,
        "holder": HERE,
        "host": "one",
        "epoch": 7,
        "era": 0,
        "missed": 0,
        "paused": False,
        "declared": True,
        "state": "ok",
        "spark": [],
    }
    made = EntryRow(**{**usual, **given})
    if made.period_us is not None and "next_us" not in given:
        made = replace(made, next_us=made.last_us + made.period_us)
    return made


def slot(state: str, due_us: int = NOW - SECOND // 2, **given: Any) -> SlotRow:
    """Return what was reported of a slot, 5 ms after it."""
    usual: dict[str, Any] = {
        "due_us": due_us,
        "era": 0,
        "epoch": 7,
        "late_us": 5_000,
        "state": state,
        "at_us": due_us + 5_000,
        "holder": HERE,
        "host": "one",
    }
    return SlotRow(**{**usual, **given})


def replica(
    holder: uuid.UUID = HERE, *, living: bool = True, kind: str = "beat"
) -> ReplicaRow:
    """Return a scheduler."""
    return ReplicaRow(
        holder=holder,
        host="one",
        pid=1,
        version="1",
        kind=kind,
        entries=1,
        differing=[],
        started_us=NOW - 60 * SECOND,
        seen_us=NOW - SECOND,
        living=living,
        won=1,
    )


def test_a_worker_that_sends_and_runs_local_entries_is_one_scheduler() -> None:
    """It has two rows; a worker that only runs local entries has one."""
    local, worker = replica(kind="local"), replica(GONE, kind="worker")
    assert alive([local, worker]) == [worker]
    assert alive([local, replica(GONE, living=False, kind="worker")]) == [local]
    assert count_of_schedulers([local, worker, replica()]) == "2 schedulers are alive"


def detail(one: EntryRow | None = None, **given: Any) -> EntryDetail:
    """Return an entry and what is known of it."""
    usual: dict[str, Any] = {
        "row": one or row(),
        "now_us": NOW,
        "declared_until_us": NOW + 100 * SECOND,
        "holder_seen_us": NOW - SECOND,
        "slots": [],
        "fence": None,
        "pending": [],
    }
    return EntryDetail(**{**usual, **given})


def ask(found: EntryDetail | None, **given: Any) -> Explanation:
    """Return the answer."""
    usual: dict[str, Any] = {
        "name": "sweep",
        "detail": found,
        "replicas": [replica()],
        "declared_in_code": True,
    }
    return explain(Question(**{**usual, **given}), at)


PENDING = PendingRow(
    due_us=NOW - SECOND // 2,
    era=0,
    epoch=7,
    attempt=1,
    asked=False,
    asked_by=None,
    claimed_us=NOW - SECOND // 4,
)
FAILING = EntryOutcomes(
    failing=True,
    undelivered=False,
    counts={"succeeded": 1, "failed": 2},
    bad=BadEnd(
        state="failed",
        due_us=NOW - 2 * SECOND,
        era=0,
        at_us=NOW - SECOND,
        host="celery@one",
        error="RuntimeError('no')",
    ),
)
OLD = row(last_us=NOW - 10 * SECOND)
CASES: dict[str, tuple[str, EntryDetail | None, dict[str, Any], str]] = {
    "in no table and no code": (
        "unknown",
        None,
        {"declared_in_code": False, "names": ["sweeps", "other"]},
        "did you mean 'sweeps'?",
    ),
    "new, and no live scheduler": (
        "no_live_scheduler",
        detail(row(epoch=0, holder=None, host=None, last_us=NOW, state="new")),
        {"replicas": [replica(living=False)]},
        "no scheduler is alive; the last was seen",
    ),
    "local, and only beat lives": (
        "no_live_scheduler",
        detail(row(run="local", last_us=NOW)),
        {},
        "its runs are local, and no worker with pecker_worker = {'scheduler'} is alive",
    ),
    "asked for, and no live scheduler": (
        "no_live_scheduler",
        detail(pending=[replace(PENDING, asked=True, claimed_us=None)]),
        {"replicas": []},
        "a run was asked for at t-0.5 and waits; no scheduler is alive",
    ),
    "well, and the last run may still go on": (
        "succeeded",
        detail(slots=[slot("published"), slot("succeeded", NOW - 2 * SECOND)]),
        {},
        "its run of t-2 ended well",
    ),
    "nobody takes its messages": (
        "published",
        detail(slots=[slot("published"), slot("published", NOW - 20 * SECOND)]),
        {},
        "slot of t-20 was handed to the broker at t-19.995, 5.0 ms late; no worker has",
    ),
    "well, and nothing has ended yet": (
        "published",
        detail(slots=[slot("published")]),
        {},
        "reported within seconds of its end",
    ),
    "failing": (
        "failing",
        detail(row(outcomes=FAILING), slots=[slot("published")]),
        {},
        "failed at t-1: RuntimeError('no'), reported by celery@one",
    ),
    "a copy of a run that nobody reported of": (
        "repeated",
        detail(slots=[slot("refused_repeated")]),
        {},
        "had started before",
    ),
    "in code only": (
        "never_seen",
        None,
        {},
        "no scheduler with this code has ever run",
    ),
    "declared by no live scheduler": (
        "no_live_scheduler",
        detail(row(declared=False), declared_until_us=NOW - SECOND),
        {"replicas": [replica(living=False)]},
        "no scheduler is alive since t-1",
    ),
    "declared by none of the living": (
        "undeclared",
        detail(row(declared=False), declared_until_us=NOW - SECOND),
        {},
        "this code does: the schedulers run other code",
    ),
    "declared by nobody at all": (
        "undeclared",
        detail(row(declared=False)),
        {"declared_in_code": False},
        "nor does this code",
    ),
    "paused": ("paused", detail(row(paused=True)), {}, "slots pass without a run"),
    "asked for": (
        "asked",
        detail(pending=[replace(PENDING, asked=True, asked_by="ann", claimed_us=None)]),
        {},
        "asked for by ann",
    ),
    "ahead of the clock": (
        "clock_stepped",
        detail(row(last_us=NOW + 60 * SECOND)),
        {},
        "set back",
    ),
    "overdue and nobody there": (
        "no_live_scheduler",
        detail(OLD),
        {"replicas": [replica(living=False)]},
        "its slot of t-9 is not won: no scheduler is alive; the last was seen at t-1",
    ),
    "local, and no worker there": (
        "no_live_scheduler",
        detail(replace(OLD, run="local")),
        {},
        "its runs are local, and no worker",
    ),
    "held by the gate": (
        "gated",
        detail(OLD, slots=[slot("held", NOW - 9 * SECOND)]),
        {},
        "held back by the gate",
    ),
    "overdue and somebody there": (
        "overdue",
        detail(OLD, slots=[slot("published", NOW - 10 * SECOND)]),
        {},
        "although 1 scheduler is alive: they cannot reach the broker",
    ),
    "a crontab that is overdue": (
        "overdue",
        detail(row(period_us=None, next_us=None, last_us=NOW - 100 * SECOND)),
        {"next_us": NOW - 40 * SECOND},
        "its slot of t-40",
    ),
    "new": (
        "new",
        detail(row(epoch=0, holder=None, host=None)),
        {},
        "its first slot is t+0.5",
    ),
    "claimed and not confirmed": (
        "pending",
        detail(pending=[PENDING]),
        {},
        "not yet confirmed it (attempt 1)",
    ),
    "claimed just now": (
        "claimed",
        detail(),
        {},
        "claimed by one (00000000); its outcome is written within seconds",
    ),
    "claimed by one who is gone": (
        "lost",
        detail(
            row(period_us=60 * SECOND, last_us=NOW - 30 * SECOND, holder=GONE),
            slots=[slot("published", NOW - 90 * SECOND)],
        ),
        {},
        "which is gone and reported nothing",
    ),
    "claimed by one who keeps silent": (
        "claimed",
        detail(
            row(period_us=60 * SECOND, last_us=NOW - 30 * SECOND),
            slots=[slot("published", NOW - 90 * SECOND)],
        ),
        {},
        "which reported nothing of it",
    ),
    "asked for and given up": (
        "given_up",
        detail(slots=[replace(slot("missed"), epoch=0)]),
        {},
        "was given up",
    ),
    "no history at all": (
        "claimed",
        detail(row(period_us=60 * SECOND, last_us=NOW - 30 * SECOND)),
        {},
        "nothing was ever reported",
    ),
    **{
        f"reported {state}": (verdict, detail(slots=[slot(state)]), {}, "t-0.5")
        for state, (verdict, _, _) in REPORTED.items()
    },
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_the_nearest_root(case: str) -> None:
    """One word for programs, one sentence for people."""
    verdict, found, given_, words = CASES[case]
    answer = ask(found, **given_)
    assert answer.verdict == verdict
    assert words in answer.why


def test_every_report_has_an_answer() -> None:
    """A report that is added later must be told here, too."""
    assert {report.name.lower() for report in Report} == {*REPORTED}


SLOTS: dict[str, tuple[int, str, str]] = {
    "reported": (NOW - 5 * SECOND // 2, "expired", "after its deadline"),
    "not on the grid": (NOW - 9 * SECOND // 4, "no_slot", "t-2.5 and t-1.5"),
    "before all reports": (NOW - 61 * SECOND // 2, "forgotten", "go back to t-2.5"),
    "before all reports, on another grid": (NOW - 30 * SECOND, "forgotten", "only"),
    "without a report": (NOW - 3 * SECOND // 2, "passed", "no process reported"),
    "the last": (NOW - SECOND // 2, "claimed", "written within seconds"),
    "to come": (NOW + 3 * SECOND // 2, "to_come", "its next slot is t+0.5"),
}


@pytest.mark.parametrize("case", SLOTS)
def test_a_slot_can_be_asked_for(case: str) -> None:
    """What became of that one, whatever came after it."""
    slot_us, verdict, words = SLOTS[case]
    found = detail(slots=[slot("refused_late", NOW - 5 * SECOND // 2)])
    answer = ask(found, slot_us=slot_us)
    assert answer.verdict == verdict
    assert words in answer.why


def test_the_facts_are_told_with_every_verdict() -> None:
    """Last and next slot, holder, epoch, the run that last started, the clock."""
    fence = Fence(
        due_us=NOW - SECOND, era=0, epoch=6, attempt=0, started_us=NOW - SECOND
    )
    told = "; ".join(ask(detail(row(missed=3), fence=fence)).facts)
    for words in (
        "last slot t-0.5, epoch 7, era 0, won by one (00000000)",
        "next slot t+0.5",
        "last run started t-1 for the slot of t-1, epoch 6",
        "3 slots had no message",
        "1 scheduler is alive; the database's clock says t+0",
    ):
        assert words in told


instants = st.integers(NOW - 100 * SECOND, NOW + 20 * SECOND)
details = st.builds(
    detail,
    st.builds(
        row,
        last_us=instants,
        period_us=st.sampled_from([None, SECOND, 60 * SECOND]),
        next_us=st.one_of(st.none(), instants),
        epoch=st.sampled_from([0, 7]),
        holder=st.sampled_from([None, HERE, GONE]),
        paused=st.booleans(),
        declared=st.booleans(),
        run=st.sampled_from(["dispatch", "local", ""]),
    ),
    slots=st.lists(
        st.builds(slot, st.sampled_from([*REPORTED, "of the future"]), instants),
        max_size=4,
    ),
    declared_until_us=st.one_of(st.none(), instants),
    pending=st.lists(
        st.builds(
            replace,
            st.just(PENDING),
            due_us=instants,
            asked=st.booleans(),
            claimed_us=st.one_of(st.none(), instants),
        ),
        max_size=2,
    ),
)


@given(
    details,
    st.lists(
        st.builds(
            replica,
            st.sampled_from([HERE, GONE]),
            living=st.booleans(),
            kind=st.sampled_from(["beat", "worker", "local"]),
        ),
        max_size=3,
    ),
    st.one_of(st.none(), instants),
    st.sampled_from([None, True, False]),
)
def test_every_state_of_the_tables_has_an_answer(
    found: EntryDetail,
    replicas: list[ReplicaRow],
    slot_us: int | None,
    declared_in_code: bool | None,
) -> None:
    """And none says that something ran, or was sent, that nobody reported."""
    answer = ask(
        found, replicas=replicas, slot_us=slot_us, declared_in_code=declared_in_code
    )
    assert answer.why
    assert answer.facts
    reported = {REPORTED[one.state][0] for one in found.slots if one.state in REPORTED}
    if answer.verdict in {"published", "started", "succeeded", "failed", "overrun"}:
        assert answer.verdict in reported
    if answer.verdict == "overdue":
        assert any(one.living for one in replicas)
