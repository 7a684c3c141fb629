"""What a run shows, for people: figures in one block, each loss by its cause."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from celery_pecker.kernel.clock import from_us
from tests.chaos.verdict import Blow

if TYPE_CHECKING:
    from tests.chaos.verdict import Lost, Verdict


def lines(title: str, verdict: Verdict) -> list[str]:
    """Return the report of one run, line by line."""
    p50, p95, p99 = (1000 * late for late in verdict.lateness)
    blows = ", ".join(f"{n} {kind}" for kind, n in sorted(verdict.events.items()))
    told = [
        f"{title}: {'stands' if verdict.stands else 'FAILS'}",
        (
            f"  slots due {verdict.due}, fired {verdict.fired},"
            f" lost {len(verdict.lost)}, doubled {len(verdict.doubled)},"
            f" off their grid {len(verdict.stray)}"
        ),
        f"  wake-ups {verdict.wakes}; blows: {blows or 'none'}",
        (
            f"  lateness of a slot's last message p50 {p50:.0f} ms, p95 {p95:.0f} ms,"
            f" p99 {p99:.0f} ms; {verdict.overdue} came after the next slot was due"
        ),
    ]
    told += [
        f"  greatest gap, {cause}: {gap.seconds:.2f} s"
        for cause, gap in sorted(verdict.gaps.items())
    ]
    return told + _losses(verdict.lost)


def _told(cause: Blow | None) -> str:
    if cause in {Blow.KILLED, Blow.FROZEN}:
        return f"its claimer was {cause} before it had published"
    return f"{cause}" if cause else "NO CAUSE"


def _losses(lost: tuple[Lost, ...]) -> list[str]:
    by_slot = collections.Counter(
        (slot.due_us, slot.claimed, slot.cause) for slot in lost
    )
    return [
        f"  lost at {from_us(due).isoformat()}: {count} slots,"
        f" {'claimed' if claimed else 'not claimed'},"
        f" {_told(cause)}"
        for (due, claimed, cause), count in sorted(
            by_slot.items(), key=lambda each: each[0][0]
        )
    ]
