"""Facts that stand below an answer: slots, epochs, schedulers. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from celery_pecker.schedules.overview.model import EntryDetail, ReplicaRow
from celery_pecker.schedules.overview.slot_verdicts import At, holder_name
from celery_pecker.schedules.overview.verdicts import Question


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
