"""How far a job is: what Notify and the result backend know, and what is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery_sharding.ledger.base import Repository, record
from celery_sharding.model import Stage

SLACK = 1e-9
"""0.05 * 20 is not quite 1 for a computer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """How far a job is, and how many of its thresholds were reported."""

    job: int
    task_id: str
    task: str
    stage: Stage
    call: bytes
    """Encoded: args and kwargs."""
    run: int
    options: Mapping[str, Any]
    continuation: Mapping[str, Any]
    notified: int
    ended: int
    total: int

    @property
    def queue(self) -> str | None:
        """Where the job's options send its messages, if they say."""
        return self.options.get("queue")

    @property
    def every(self) -> float | None:
        """The part between two thresholds; None: Notify is not asked for."""
        return self.options.get("notify_every")

    @property
    def due(self) -> int:
        """Thresholds that were crossed; 0 where Notify is not asked for."""
        if not self.every or not self.total:
            return 0
        return int(min(self.ended / self.total, 1.0) / self.every + SLACK)

    @property
    def meta(self) -> dict[str, Any]:
        """Return it as progress bars for Celery read it."""
        fraction = self.ended / self.total if self.total else 0.0
        return {
            "current": self.ended,
            "total": self.total,
            "percent": round(fraction * 100, 1),
            "pending": False,
        }


class Reporting(Repository):
    """Reports of progress, and their leases."""

    def threshold(self, job: int) -> Threshold | None:
        """Return how far the job is; None: there is no such job.

        Shards that were given back midway count when they are held again: it may be
        less than before, so `notified` is what was reached.
        """
        return self._read_one(record(Threshold, job=job), "read_progress", job=job)

    def hold_notify(self, job: int, holder: str, lease: float) -> bool:
        """Lease Notify to that holder for so many seconds; return whether."""
        return self._change_one("hold_notify", job=job, holder=holder, lease=lease)

    def release_notify(self, job: int, holder: str) -> None:
        """Let another call Notify."""
        self._change_one("release_notify", job=job, holder=holder)

    def notified(self, job: int, step: int, holder: str | None = None) -> bool:
        """Count that threshold as reported by this holder; return whether it is."""
        return self._change_one("notify_step", job=job, step=step, holder=holder)

    def claim_notify(self, job: int, *, resend: float) -> bool:
        """Claim the message for Notify, while shards run; return whether.

        One that was not taken within six times `resend` seconds counts as lost.
        """
        return self._change_one("call_notify", job=job, resend=resend)

    def claim_report(self, job: int, *, every: float = 1.0) -> bool:
        """Claim this report of progress to the result backend; return whether."""
        return self._change_one("claim_progress", job=job, every=every)
