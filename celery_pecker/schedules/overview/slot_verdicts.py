"""What became of one slot that was claimed, and the facts below an answer. Pure."""

import uuid
from collections.abc import Callable, Iterator, Sequence

from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.overview.model import EntryDetail, ReplicaRow, SlotRow
from celery_pecker.schedules.overview.verdicts import (
    GAVE_UP,
    REPORTED,
    Explanation,
    Question,
)

WRITTEN_WITHIN_US = 15 * SECOND
"""Reports are written in the pauses of a scheduler; after that they are missing."""

At = Callable[[int], str]
"""Shows an instant."""


def of_slot(
    question: Question, detail: EntryDetail, due_us: int, at: At
) -> Iterator[Explanation]:
    """Return what became of one slot that was claimed."""
    for pending in detail.pending:
        if pending.due_us == due_us and not pending.asked:
            yield Explanation(
                verdict="pending",
                why=f"its slot of {at(due_us)} was claimed and the broker has not yet"
                f" confirmed it (attempt {pending.attempt})",
                advice="another scheduler publishes it again, with the same task id,"
                " 15 s after its claim",
            )
    matching = [slot for slot in detail.slots if slot.due_us == due_us]
    if matching:
        late = detail.now_us - due_us >= WRITTEN_WITHIN_US
        if matching[0].state == "published" and not late:
            yield _sent(matching[0], at)
        yield reported(matching[0], at)
    else:
        yield _unreported(question, detail, due_us, at)


def reported(slot: SlotRow, at: At) -> Explanation:
    """Return what was reported of a slot."""
    verdict, why, advice = REPORTED.get(
        slot.state, (slot.state, f"its slot of {{due}}: {slot.state}", None)
    )
    if slot.state == "missed" and not slot.epoch:  # no replica ever claimed it
        verdict, why, advice = GAVE_UP
    words = {
        "due": at(slot.due_us),
        "when": at(slot.at_us),
        "late": _late(slot.late_us),
    }
    return Explanation(
        verdict=verdict,
        why=why.format(**words),
        advice=advice.format(**words) if advice else None,
        facts=[f"reported by {reporter(slot)}, epoch {slot.epoch}"],
    )


def _sent(slot: SlotRow, at: At) -> Explanation:
    """Return what can be known by now of a slot of the last seconds."""
    return Explanation(
        verdict="published",
        why=f"a message for its slot of {at(slot.due_us)} was handed to the broker at"
        f" {at(slot.at_us)}{_late(slot.late_us)}; how its run ends is reported within"
        " seconds of its end",
        facts=[f"reported by {reporter(slot)}, epoch {slot.epoch}"],
    )


def _unreported(
    question: Question, detail: EntryDetail, due_us: int, at: At
) -> Explanation:
    row = detail.row
    holder = holder_name(row.holder, row.host)
    if detail.now_us - due_us < WRITTEN_WITHIN_US:
        return Explanation(
            verdict="claimed",
            why=f"its slot of {at(due_us)} was claimed by {holder}; its outcome is"
            " written within seconds",
        )
    if not detail.slots:
        return Explanation(
            verdict="claimed",
            why=f"its slot of {at(due_us)} was claimed by {holder}; nothing was ever"
            " reported of this entry",
            advice="pecker_history may be 0, or the scheduler's version older",
        )
    living = any(one.living for one in question.replicas if one.holder == row.holder)
    if living:
        return Explanation(
            verdict="claimed",
            why=f"its slot of {at(due_us)} was claimed by {holder}, which reported"
            " nothing of it",
            advice="the scheduler may be frozen, or drop reports: see its log",
        )
    return Explanation(
        verdict="lost",
        why=f"its slot of {at(due_us)} was claimed by {holder}, which is gone and"
        " reported nothing: it died, perhaps before the message was out",
        advice="delivery 'at_least_once' publishes such slots again",
    )


def _late(late_us: int | None) -> str:
    return "" if late_us is None else f", {late_us / 1000:.1f} ms late"


def reporter(slot: SlotRow) -> str:
    """Return the process that reported of a slot."""
    return holder_name(slot.holder, slot.host)


def holder_name(holder: uuid.UUID | None, host: str | None) -> str:
    """Return a process by its host and the beginning of its id."""
    if holder is None:
        return "no replica"
    return f"{host or 'a host no longer known'} ({str(holder)[:8]})"


def facts_of(question: Question, detail: EntryDetail, at: At) -> list[str]:
    """Return what is known of an entry, a sentence each."""
    row = detail.row
    known = [
        f"last slot {at(row.last_us)}, epoch {row.epoch}, era {row.era}, won by"
        f" {holder_name(row.holder, row.host)}"
        if row.epoch
        else f"first seen {at(row.last_us)}"
    ]
    due = next_slot(question, detail)
    if due is not None:
        known.append(f"next slot {at(due)}")
    if detail.fence is not None:
        fence = detail.fence
        known.append(
            f"last run started {at(fence.started_us)} for the slot of"
            f" {at(fence.due_us)}, epoch {fence.epoch}"
        )
    if row.missed:
        known.append(f"{row.missed} slots had no message since the row was made")
    living = count_of_schedulers(question.replicas)
    known.append(f"{living}; the database's clock says {at(detail.now_us)}")
    return known


def next_slot(question: Question, detail: EntryDetail) -> int | None:
    """Return the instant of the next slot; None if it is not known."""
    return detail.row.next_us if detail.row.next_us is not None else question.next_us


def overdue_us(question: Question, detail: EntryDetail) -> int:
    """Return for how long the next slot has been due."""
    due = next_slot(question, detail)
    return 0 if due is None else detail.now_us - due


def able(replicas: Sequence[ReplicaRow], run: str) -> list[ReplicaRow]:
    """Return the living schedulers that could win slots of entries with this run."""
    kinds = {"local"} if run == "local" else {"beat", "worker"}
    return [one for one in replicas if one.living and one.kind in kinds]


def differing(replicas: Sequence[ReplicaRow]) -> list[str]:
    """Return the entries that living schedulers declare differently."""
    return sorted({name for one in replicas if one.living for name in one.differing})


def alive(replicas: Sequence[ReplicaRow]) -> list[ReplicaRow]:
    """Return those that live, a worker once.

    A worker has two rows: one part sends, the other runs local entries.
    """
    workers = {(o.host, o.pid) for o in replicas if o.living and o.kind == "worker"}
    return [
        one
        for one in replicas
        if one.living and (one.kind != "local" or (one.host, one.pid) not in workers)
    ]


def count_of_schedulers(replicas: Sequence[ReplicaRow]) -> str:
    """Return how many live, as a clause."""
    living = len(alive(replicas))
    return "1 scheduler is alive" if living == 1 else f"{living} schedulers are alive"
