"""What ended PreProcess or Post: the job's failure, or the end of its process."""

from __future__ import annotations

from celery.exceptions import Ignore, Reject, Retry, WorkerShutdown, WorkerTerminate

from celery_sharding.errors import DatabaseUnavailable, JobFailed

CELERYS = (Ignore, Reject, Retry)
"""What Celery's tracer would take for something else than a failure."""
ENDS = (WorkerShutdown, WorkerTerminate)
"""A worker's own way out, raised in whatever runs."""
BY_SIGNAL = range(-255, -191)
"""Codes of the SystemExit by which a child of prefork ends: 256 less than the signal's
number. SIGTERM is -241: a hard time limit, or who stops all processes of a service."""


def judged(error: BaseException, what: str) -> Exception:
    """Return why the job failed; raise what ends this process or turn, and no job.

    Whoever comes after that begins the stage anew. ``what``: "Post of proj.rows".
    """
    if isinstance(error, DatabaseUnavailable) or ends(error):
        raise error
    if isinstance(error, SystemExit):
        # Raised as it is, it would end each process that raises it.
        return JobFailed(f"{what} raised SystemExit({error.code!r})")
    if isinstance(error, CELERYS):
        message = (
            f"{what} raised {type(error).__name__}: a job is not retried, ignored or"
            " rejected as a message is"
        )
        return JobFailed(message)
    if isinstance(error, Exception):
        return error
    raise error


def ends(error: BaseException) -> bool:
    """Return whether the process is to end, from outside of the code that ran."""
    if isinstance(error, ENDS):
        return True
    return isinstance(error, SystemExit) and error.code in BY_SIGNAL
