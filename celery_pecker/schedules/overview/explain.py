"""Why did it not run? Pure: from what the tables say, and what the asker's code says.

The first rule that fits gives the verdict; what is nearest to the root comes first (an
entry that no replica declares is not "overdue"). A verdict states known facts only:
that a message was published is known, that a worker ran it only if one reported it.
"""

from collections.abc import Iterator
from dataclasses import replace

from celery_pecker.kernel.declared import suggestion
from celery_pecker.schedules.overview.model import (
    BadEnd,
    EntryDetail,
    EntryRow,
    SlotRow,
)
from celery_pecker.schedules.overview.slot_verdicts import (
    WRITTEN_WITHIN_US,
    At,
    able,
    alive,
    count_of_schedulers,
    facts_of,
    next_slot,
    of_slot,
    overdue_us,
    reported,
    reporter,
)
from celery_pecker.schedules.overview.verdicts import REPORTED, Explanation, Question


def failing(row: EntryRow, bad: BadEnd, at: At) -> Explanation:
    """Return what the entry fails with: its last slot, or one within a minute."""
    _, why, advice = REPORTED.get(bad.state, (bad.state, "its slot of {due}", None))
    if bad.state == "failed_to_send" and bad.error:
        why = "a message for its slot of {due} was refused and not sent"
    words = {"due": at(bad.due_us), "when": at(bad.at_us), "late": ""}
    error = f": {bad.error}" if bad.error else ""
    host = f", reported by {bad.host}" if bad.host else ""
    runs = ", ".join(
        f"{count} {ended.replace('_', ' ')}"
        for ended, count in row.outcomes.counts.items()
        if count and ended != "published"
    )
    return Explanation(
        verdict="failing",
        why=f"{why.format(**words)}{error}{host}",
        advice=advice.format(**words) if advice else None,
        facts=[f"so far: {runs}"],
    )


def unreported(row: EntryRow, since_us: int, at: At) -> Explanation:
    """Return what has no report, and where to look."""
    counts = row.outcomes.counts
    ended = sum(counts.values()) - counts["published"] - counts["not_sent"]
    return Explanation(
        verdict="unreported",
        why="what was sent of it should have begun by"
        f" {at(since_us)}, and no worker reports of it: it waits in its queue, or its"
        " worker died, or runs without pecker_dsn",
        advice=REPORTED["published"][2],
        facts=[f"so far: {counts['published']} published, {ended} reported by workers"],
    )


ENDED = frozenset({"succeeded", "failed", "overrun", "lost"})
UNDER_WAY = frozenset({"published", "started", "running", "asked"})


def explain(question: Question, at: At) -> Explanation:
    """Return why the entry runs or does not."""
    detail = question.detail
    if detail is None:
        return _not_in_tables(question)
    rules = _of_a_slot if question.slot_us is not None else _of_the_entry
    answer = next(rules(question, detail, at))
    return replace(answer, facts=[*answer.facts, *facts_of(question, detail, at)])


def _not_in_tables(question: Question) -> Explanation:
    if question.declared_in_code:
        return Explanation(
            verdict="never_seen",
            why=f"this code declares {question.name!r}, but no scheduler with this code"
            " has ever run",
            advice="start one: celery -A proj beat -S pecker, or a worker with"
            " pecker_worker = {'scheduler'}; restart those that run older code",
        )
    meant = suggestion(question.name, question.names)
    return Explanation(
        verdict="unknown",
        why=f"no entry is named {question.name!r}, neither in the tables nor in this"
        f" code{meant}",
        advice="list them: celery -A proj pecker tasks",
    )


def _of_the_entry(
    question: Question, detail: EntryDetail, at: At
) -> Iterator[Explanation]:
    """Yield what keeps the entry from running, the root first; then its last slot."""
    row = detail.row
    if not row.declared:
        yield _undeclared(question, detail, at)
    if row.paused:
        yield Explanation(
            verdict="paused",
            why="it is paused: its slots pass without a run",
            advice="celery -A proj pecker resume NAME",
        )
    without_winner = _without_winner(question, detail, at)
    yield from _waiting(detail, without_winner, at)
    if row.last_us > detail.now_us + max(question.slack_us, row.period_us or 0):
        yield Explanation(
            verdict="clock_stepped",
            why=f"its last slot, {at(row.last_us)}, lies ahead of the database's clock,"
            f" {at(detail.now_us)}: the clock was set back, or the row was set by hand",
            advice="a living scheduler mends it at its next look: see why none does",
        )
    if without_winner is not None:
        yield without_winner
    if overdue_us(question, detail) > question.overdue_after_us:
        yield _overdue(question, detail, at)
    if row.outcomes.failing and row.outcomes.bad is not None:
        yield failing(row, row.outcomes.bad, at)
    if row.outcomes.unreported_us is not None:
        yield unreported(row, row.outcomes.unreported_us, at)
    if not row.epoch:
        due = next_slot(question, detail)
        when = f"its first slot is {at(due)}" if due else "it had no slot yet"
        yield Explanation(
            verdict="new",
            why=f"it was first seen at {at(row.last_us)}; {when}",
            advice="an interval counts from when it was first seen: import the last"
            " runs of the scheduler before, if there was one",
        )
    known = _newest_ended_run(detail)
    if known is not None:
        yield reported(known, at)
    yield from of_slot(question, detail, row.last_us, at)


def _waiting(
    detail: EntryDetail, without_winner: Explanation | None, at: At
) -> Iterator[Explanation]:
    """Return what a run that was asked for waits for."""
    for pending in detail.pending:
        if not pending.asked or pending.claimed_us is not None:
            continue
        by = f" by {pending.asked_by}" if pending.asked_by else ""
        request = f"a run was asked for{by} at {at(pending.due_us)} and"
        if without_winner is not None:
            yield Explanation(
                verdict="no_live_scheduler",
                why=f"{request} waits; {without_winner.why}",
                advice=without_winner.advice,
            )
        yield Explanation(
            verdict="asked",
            why=f"{request} waits for a scheduler to take it",
            advice="it is taken within seconds; with a timeout, when the run before"
            " must have ended",
        )


def _newest_ended_run(detail: EntryDetail) -> SlotRow | None:
    """Return the newest run that is known to have ended, while the last one may go on.

    A worker reports within seconds of a run's end: of an entry that runs each second
    the last slot is always one without a report yet. If none has ended, it
    is the newest one whose message has had no report for longer than that.
    """
    for slot in detail.slots:
        if slot.state in ENDED:
            return slot
        if slot.state not in UNDER_WAY:
            return None
        if detail.now_us - slot.due_us >= WRITTEN_WITHIN_US:
            last = detail.slots[0].due_us >= detail.row.last_us
            return slot if last and slot.state == "published" else None
    return None


def _of_a_slot(
    question: Question, detail: EntryDetail, at: At
) -> Iterator[Explanation]:
    """Return what became of the slot that is asked for."""
    row, slot_us = detail.row, question.slot_us or 0
    known = {slot.due_us for slot in detail.slots}
    if slot_us in known or slot_us == row.last_us:
        yield from of_slot(question, detail, slot_us, at)
    if slot_us > row.last_us:
        due = next_slot(question, detail)
        if slot_us > detail.now_us or not row.declared or row.paused:
            when = f"; its next slot is {at(due)}" if due else ""
            if slot_us > detail.now_us:
                yield Explanation(
                    verdict="to_come", why=f"that instant has not come{when}"
                )
        yield from _of_the_entry(question, detail, at)
    first_us = detail.slots[-1].due_us if detail.slots else row.last_us
    # Before the first report another period, or another era, may have been in force.
    if (
        row.period_us
        and slot_us >= first_us
        and (row.last_us - slot_us) % row.period_us
    ):
        before = slot_us + (row.last_us - slot_us) % row.period_us - row.period_us
        yield Explanation(
            verdict="no_slot",
            why=f"the entry has no slot at that instant: the nearest are {at(before)}"
            f" and {at(before + row.period_us)}",
            advice="slots lie on a grid that counts from when the entry was first seen",
        )
    if detail.slots and slot_us < detail.slots[-1].due_us:
        yield Explanation(
            verdict="forgotten",
            why=f"reports go back to {at(detail.slots[-1].due_us)} only",
            advice="pecker_history says how many slots are kept",
        )
    yield Explanation(
        verdict="passed",
        why="no process reported of that slot: no scheduler ran then, or it was passed"
        " over in favour of a later one, or its winner died before the report was"
        " written",
        advice="the policy 'misfire' says what becomes of slots that were missed:"
        " coalesce runs the latest, catch_up the last few, skip none",
    )


def _undeclared(question: Question, detail: EntryDetail, at: At) -> Explanation:
    until = detail.declared_until_us
    since = f" since {at(until)}" if until is not None else ""
    if not alive(question.replicas):
        return Explanation(
            verdict="no_live_scheduler",
            why=f"no scheduler is alive{since}",
            advice="start one: celery -A proj beat -S pecker, or a worker with"
            " pecker_worker = {'scheduler'}",
        )
    in_code = (
        "; this code does: the schedulers run other code, restart them with it"
        if question.declared_in_code
        else "; nor does this code"
        if question.declared_in_code is False
        else ""
    )
    return Explanation(
        verdict="undeclared",
        why=f"{count_of_schedulers(question.replicas)}, and none declares it{since}"
        f"{in_code}",
        advice="its rows go a day after the last declaration; add it to beat_schedule"
        " if it is wanted",
    )


def _without_winner(
    question: Question, detail: EntryDetail, at: At
) -> Explanation | None:
    """Return the verdict where no live scheduler could win the slots, else None."""
    row = detail.row
    if able(question.replicas, row.run):
        return None
    seen = max((one.seen_us for one in question.replicas), default=None)
    last = f"; the last was seen at {at(seen)}" if seen else ""
    due = (
        f"its slot of {at(next_slot(question, detail) or row.last_us)} is not won: "
        if overdue_us(question, detail) > 0
        else ""
    )
    local = row.run == "local" and any(one.living for one in question.replicas)
    return Explanation(
        verdict="no_live_scheduler",
        why=f"{due}its runs are local, and no worker with pecker_worker ="
        " {'scheduler'} is alive"
        if local
        else f"{due}no scheduler is alive{last}",
        advice="start a worker with pecker_worker = {'scheduler'}"
        if row.run == "local"
        else "start one: celery -A proj beat -S pecker, or a worker with"
        " pecker_worker = {'scheduler'}",
    )


def _overdue(question: Question, detail: EntryDetail, at: At) -> Explanation:
    row = detail.row
    due = at(next_slot(question, detail) or row.last_us)
    there = able(question.replicas, row.run)
    newest = detail.slots[0] if detail.slots else None
    if newest is not None and newest.state == "held" and newest.due_us > row.last_us:
        return Explanation(
            verdict="gated",
            why=f"its slot of {due} is held back by the gate (pecker_gate), reported at"
            f" {at(newest.at_us)} by {reporter(newest)}",
            advice="it runs when the gate opens, by its misfire policy",
        )
    if question.locks:
        what = f"its slot of {due} is not won"
        return Explanation.locked(what, question.locks[0], "pecker_tasks")
    return Explanation(
        verdict="overdue",
        why=f"its slot of {due} is not won, although {count_of_schedulers(there)}:"
        " they cannot reach the broker, the gate holds it back, or they hang",
        advice="see their logs; celery -A proj pecker doctor",
    )
