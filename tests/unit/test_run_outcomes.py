"""What a run came to, by the exception that ended it."""

from __future__ import annotations

import pytest
from billiard.exceptions import WorkerLostError

from celery_pecker.history import Report
from celery_pecker.runs.outcomes import outcome

SIGTERM = 15 - 256


def handed_over(error: BaseException) -> WorkerLostError:
    """Return what pools without processes make of it (celery.concurrency.base)."""
    lost = WorkerLostError(repr(error))
    lost.__context__ = error
    return lost


@pytest.mark.parametrize(
    ("error", "report"),
    [
        (SystemExit(3), Report.FAILED),
        (SystemExit(), Report.FAILED),
        (SystemExit("usage: sweep"), Report.FAILED),
        (SystemExit(["no", "code"]), Report.FAILED),
        (SystemExit(SIGTERM), Report.LOST),
        (handed_over(SystemExit(3)), Report.FAILED),
        (handed_over(KeyboardInterrupt()), Report.LOST),
        (WorkerLostError("signal 9 (SIGKILL)"), Report.LOST),
        (KeyboardInterrupt(), Report.LOST),
    ],
    ids=repr,
)
def test_who_raised_system_exit_has_failed(
    error: BaseException, report: Report
) -> None:
    """A process that was ended from outside is lost."""
    assert outcome(error) is report
