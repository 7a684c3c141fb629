"""What a run came to, by the exception that ended it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from billiard.exceptions import WorkerLostError
from celery import Celery
from celery.signals import task_revoked

from celery_pecker.runs.outcomes import Watch, outcome
from celery_pecker.schedules.engine.model import task_id
from celery_pecker.schedules.history.report import Report

SIGTERM = 15 - 256


def sweep() -> None:
    """Do nothing."""


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


@pytest.mark.parametrize(
    ("how", "reports"),
    [
        ({"expired": True}, [(Report.REFUSED_LATE, "")]),
        ({}, [(Report.FAILED, "TaskRevokedError('revoked before it started')")]),
        ({"terminated": True}, []),
    ],
    ids=["expired", "revoked", "terminated"],
)
def test_a_message_that_never_starts_is_reported(
    how: dict[str, bool], reports: list[tuple[Report, str]]
) -> None:
    """Nobody else reports of it; of one that had begun its end is reported."""
    made: list[tuple[Report, str]] = []
    stub: Any = SimpleNamespace(add=lambda _, *said: made.append(said[:2]))
    watch = Watch(stub, schema="public")
    app = Celery("revoked", broker="memory://", set_as_current=False)
    task = app.task(sweep)
    watch.wrap(task)
    due = "2026-01-01T00:00:00+00:00"
    header = {"name": "sweep", "due_at": due, "era": 0, "epoch": 7}
    mine = task_id("public", "sweep", 1_767_225_600_000_000, 0)
    request = SimpleNamespace(id=mine, pecker=header)
    told = {"expired": False, "terminated": False, **how}
    task_revoked.send(sender=task, request=request, **told)
    assert made == reports
