"""Jobs that are called inside of a Django transaction."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from celery import Celery

from celery_sharding import ShardedTask
from tests.integration.sharding.canvas import __name__ as here

PROGRAM = Path(__file__).with_name("django_program.py")


def test_jobs_that_are_called_on_commit_are_as_other_tasks_under_django(
    dsn: str, redis_url: str, queue_name: str
) -> None:
    """Submitted when the transaction is committed, and not if it is rolled back."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAM)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=Path(__file__).parents[4],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[4]),
            "DJANGO_SETTINGS_MODULE": f"{here}.django_program",
            "PROGRAM_DSN": dsn,
            "PROGRAM_BROKER": redis_url,
            "PROGRAM_QUEUE": queue_name,
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_other_apps_have_no_such_methods(app: Celery, task: ShardedTask) -> None:
    """As Celery's own tasks."""
    assert not hasattr(task, "delay_on_commit")
    assert "Task" not in vars(app)
