"""A stage's lease: renewed while the user's code runs, or given up in good order.

A process that dies reports nothing: its stage is begun anew when its lease is over, and
not without end, since what killed it would do so each time. An outage of PostgreSQL is
no death, and cannot be written down while it lasts: so the retry's message brings
a header, and its receiver gives the stage back in this process' name.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any, Self, TypeVar

from celery.exceptions import Ignore, Reject, Retry

from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_pecker.kernel.user_code import call_logging_errors, shown
from celery_sharding.errors import DatabaseUnavailable, JobFailed
from celery_sharding.ledger import Ledger, at
from celery_sharding.process import process_end

logger = logging.getLogger(__name__)

PARTS = 3
"""Renewals in a lease: one may be lost, or come late."""
SOON = 0.5
"""Seconds between two looks at whether the code is to end."""


@dataclass(eq=False, repr=False)
class LeaseRenewal:
    """Renews a lease until the block ends, or another has it.

    The user's code may take hours without a call to the ledger. What it returns is
    fenced by the epoch when it is written: the lease only keeps others from beginning
    the same at the same time.
    """

    app: Any
    lease: float
    """Seconds."""
    renew: Callable[[Ledger], bool]
    """Renews the lease, with the ledger of another thread."""
    stopping: Callable[[], bool] | None = None
    end: Callable[[], None] | None = None
    """Called once the lease is lost, or `stopping` says so: within half a second."""

    def __post_init__(self) -> None:
        self._every = min(self.lease / PARTS, SOON if self.end else inf)
        self._failed = OnceAMinute(logger, prefix="sharding: ", level=logging.ERROR)
        self._over = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(
            target=self._keep, name="celery_sharding-renewal", daemon=True
        )

    @property
    def lost(self) -> bool:
        """Whether this process has lost the stage: what it does will not be written."""
        return self._lost.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait that long; return whether the lease is lost."""
        return self._lost.wait(seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _keep(self) -> None:
        ledger = at(self.app, role="renewal")
        try:
            while not self._over.wait(self._every) and not self.lost:
                # A mistake ends no thread: a stage that runs would lose its lease.
                self._failed.call("renewing a stage", None, self._ask, ledger)
                over = self._lost.is_set()
                if self.stopping is not None:
                    over = over or self.stopping()
                if over and self.end is not None:
                    self.end()
        finally:
            ledger.close()

    def _ask(self, ledger: Ledger) -> None:
        try:
            if not self.renew(ledger):
                self._lost.set()
        except DatabaseUnavailable:
            return  # retried, for as long as the lease may stand


Answer = TypeVar("Answer")
PAUSE = 1.0
"""Seconds between two tries to write to a ledger that does not answer."""
CELERYS = (Ignore, Reject, Retry)
"""What Celery's tracer would take for something else than a failure."""


def judged(error: BaseException, what: str) -> Exception:
    """Return why the job failed; raise what ends this process or turn, and no job.

    The next process begins the stage again. ``what``: "Post of proj.rows".
    """
    end = error if isinstance(error, DatabaseUnavailable) else process_end(error)
    if end is not None:
        raise end
    if isinstance(error, CELERYS):
        message = (
            f"{what} raised {type(error).__name__}: a job is not retried, ignored or"
            " rejected as a message is"
        )
        return JobFailed(message)
    if isinstance(error, Exception):
        return error
    # Raised as it is, SystemExit or CancelledError would end what runs the job.
    failure = JobFailed(f"{what} raised {shown(error)}")
    failure.__cause__ = error
    return failure


LEFT = "sharding_left"
"""The header of a retry's message: job, epoch, and how often it was so."""
MOST = 20
"""Outages in a row that do not count: what always fails so is no outage."""


class StageLeft(DatabaseUnavailable):
    """PostgreSQL went away from a stage that this process has begun."""

    def __init__(self, message: str = "", job: int = 0, epoch: int = 0) -> None:
        super().__init__(message)
        self.job = job
        self.epoch = epoch


@contextmanager
def leaving(ledger: Ledger, job: int, epoch: int) -> Iterator[None]:
    """Free the stage that is run inside for others, if it does not come to its end."""
    try:
        yield
    except DatabaseUnavailable as error:
        raise StageLeft(str(error), job, epoch) from error
    except BaseException as error:
        if process_end(error) is not None:
            what = f"leaving the stage of job {job}"
            call_logging_errors(what, ledger.outcomes.leave, job, epoch, counts=True)
        raise


def retrying(
    call: Callable[[], Answer],
    tries: int,
    wait: Callable[[float], bool] | None = None,
) -> Answer:
    """Return what a call to the ledger answers, with retries each second.

    ``wait``: returns True where it is of no more use.
    """
    wait = wait or threading.Event().wait
    while True:
        tries -= 1
        try:
            return call()
        except DatabaseUnavailable:
            if not tries or wait(PAUSE):
                raise


def headers_of(headers: Mapping[str, Any], error: DatabaseUnavailable) -> Any:
    """Return the headers of the retry's message."""
    if not isinstance(error, StageLeft):
        return headers
    _, _, before = headers.get(LEFT) or (0, 0, 0)
    return {**headers, LEFT: [error.job, error.epoch, before + 1]}


def free_abandoned(ledger: Ledger, headers: Mapping[str, Any]) -> None:
    """Free the stage that a message names as left."""
    job, epoch, times = headers.get(LEFT) or (0, 0, 0)
    if 0 < times <= MOST:
        ledger.outcomes.leave(job, epoch, counts=False)
