"""The message of a job in a worker's main process.

It only says that there may be something to do for a job that stands in the ledger. So
it is acknowledged as it begins: RabbitMQ closes the channel of a worker that holds one
for longer than its consumer_timeout, which ended the worker. What the process that runs
it leaves undone is the sweeper's.
"""

import logging
from typing import Any

from celery.exceptions import TimeLimitExceeded
from celery.worker.request import Request
from celery.worker.state import task_ready

from celery_pecker.kernel.clock import SYSTEM
from celery_sharding import flow
from celery_sharding.canvas.sending import SUBMITTED
from celery_sharding.errors import PeckerError
from celery_sharding.ledger import at
from celery_sharding.messages import RESENT, SENT_BY
from celery_sharding.model import Stage

logger = logging.getLogger(__name__)

STORED = frozenset({SUBMITTED, RESENT})
"""What the header of a message says whose job stands in the ledger."""


class JobRequest(Request):
    """A job's message: the ledger, not this process, knows how the job stands."""

    def maybe_expire(self) -> Any:
        """Return whether the job is not to begin any more; one that has begun goes on.

        A copy of its message may be sent, or come, when its expiry is over.
        """
        expires: Any = self.expires
        if expires and SYSTEM.now() > expires and self._begun():
            return False
        return super().maybe_expire()

    def _begun(self) -> bool:
        try:
            stands = at(self.app, role="caller").outcomes.stage_of(str(self.id))
        except PeckerError:
            return True  # the task asks once more, and comes later
        return stands is not None and stands[0] is not Stage.SUBMITTED

    def on_accepted(self, pid: Any, time_accepted: Any) -> None:
        """Acknowledge it as it begins, unless it alone knows of the call."""
        super().on_accepted(pid, time_accepted)
        if self.request_dict.get(SENT_BY) in STORED:
            self.acknowledge()

    def on_timeout(self, soft: Any, timeout: Any) -> None:
        """Fail the job, once, if its PreProcess or Post took longer than time_limit.

        The pool kills the process that runs it after this.
        """
        if soft:
            super().on_timeout(soft, timeout)
            return
        task_ready(self)
        self.acknowledge()
        logger.error("Hard time limit (%ss) exceeded for %s", timeout, self.humaninfo())
        process: Any = self.worker_pid
        error = TimeLimitExceeded(timeout)
        try:
            ledger = at(self.app, role="caller")
            flow.fail(self.app, ledger, str(self.id), error, process=process)
        except PeckerError as away:
            logger.warning("sharding: %s is begun anew: %s", self.id, away)

    def on_failure(
        self,
        exc_info: Any,
        send_failed_event: bool = True,
        return_ok: bool = False,
    ) -> None:
        """Leave a hard time limit to `on_timeout`; all else is as Celery does it.

        A process that died has failed no job: reject_on_worker_lost is set.
        """
        error = getattr(exc_info.exception, "exc", exc_info.exception)
        if return_ok or not isinstance(error, TimeLimitExceeded):
            super().on_failure(exc_info, send_failed_event, return_ok)
