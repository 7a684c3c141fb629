"""Report progress to the result backend and, by a message, to Notify.

The state PROGRESS in the result backend is what progress bars for Celery read. A
thread of its own writes it: Celery waits for a backend that is away for
twenty seconds, and neither tickets nor the sweeper may wait for it.
"""

import logging
import os
import queue
import threading
from typing import Any

from celery.app.task import Context

from celery_pecker.kernel.user_code import call_logging_errors
from celery_sharding import pace
from celery_sharding.errors import PeckerError
from celery_sharding.flow.outcomes import stored
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.outcomes import Threshold
from celery_sharding.ledger.upkeep import REPORT_INTERVAL
from celery_sharding.messages import send_notify
from celery_sharding.model import Stage

logger = logging.getLogger(__name__)

STATE = "PROGRESS"
WAITING = 100
"""Reports that may wait; more are dropped, since the next second brings newer ones."""
IDLE = 10.0
"""Seconds after which the thread ends where there is nothing to report."""


class _Reports:
    """The reports of one process, and the thread that stores them."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.waiting: queue.Queue[tuple[Any, Threshold]] = queue.Queue(WAITING)
        self.turn = threading.Lock()
        self.running = False

    def put(self, app: Any, stands: Threshold) -> None:
        """Queue one report for the thread, or drop it."""
        try:
            self.waiting.put_nowait((app, stands))
        except queue.Full:
            return
        with self.turn:
            if not self.running:
                self.running = True
                threading.Thread(
                    target=self._run, name="celery_sharding-progress", daemon=True
                ).start()

    def _run(self) -> None:
        while True:
            try:
                app, stands = self.waiting.get(timeout=IDLE)
            except queue.Empty:
                with self.turn:
                    if self.waiting.empty():
                        self.running = False
                        return
                continue
            call_logging_errors(
                f"reporting the progress of {stands.task_id}", _store, app, stands
            )
            self.waiting.task_done()


_reports = _Reports()


def report(app: Any, stands: Threshold) -> None:
    """Queue the job's progress for the backend; never wait."""
    global _reports  # noqa: PLW0603  # a fork has the parent's queue, and no thread
    if _reports.process != os.getpid():
        _reports = _Reports()
    task = app.tasks.get(stands.task)
    if stands.continuation.get("ignore_result", getattr(task, "ignore_result", False)):
        return
    _reports.put(app, stands)


def _store(app: Any, stands: Threshold) -> None:
    task_id = stands.task_id
    backend = getattr(app.tasks.get(stands.task), "backend", None) or app.backend
    continuation = stands.continuation
    request = Context(
        {
            "id": task_id,
            "task": stands.task,
            "reply_to": continuation.get("reply_to"),
            "correlation_id": task_id,
            "group": continuation.get("group_id"),
            "parent_id": continuation.get("parent_id"),
        }
    )
    backend.store_result(task_id, stands.meta, STATE, request=request)
    _store_outcome(app, backend, stands, request)


def _store_outcome(app: Any, backend: Any, stands: Threshold, request: Any) -> None:
    """Store the outcome in the backend, if the job was decided meanwhile.

    Progress may have just been written over it: a caller that waits for the result
    would never get it.
    """
    ledger = at(app, role="progress")
    try:
        ended = ledger.outcomes.decided(stands.task_id)
    except PeckerError as error:
        logger.warning("sharding: %s: %s", stands.task_id, error)
        return
    if ended is None or ended.stage not in (Stage.DELIVERING, Stage.ENDED):
        return
    result, state = stored(app, ended)
    backend.store_result(stands.task_id, result, state, request=request)


def report_progress(app: Any, ledger: Ledger, job: int, stage: Stage) -> None:
    """Report the progress, unless it was reported within the last second.

    Notify's message is sent when a threshold is due, and after a while once more: the
    ledger drops what comes twice. Once the items have ended each call looks, for there
    are few.
    """
    if stage is Stage.SHARDING and not ledger.outcomes.claim_report(
        job, every=REPORT_INTERVAL
    ):
        return
    stands = ledger.outcomes.threshold(job)
    if stands is None:
        return
    if stands.stage is not Stage.SHARDING:
        notify(app, stands)
        return
    report(app, stands)
    if (
        stands.notified < stands.due
        and ledger.outcomes.claim_notify(job, resend=pace.RESEND)
        and not notify(app, stands)
    ):
        ledger.outcomes.unsent(job)


def notify(app: Any, stands: Threshold) -> bool:
    """Send Notify's message if one is due; return whether the broker took it."""
    if stands.notified >= stands.due:
        return False
    return send_notify(app, stands)
