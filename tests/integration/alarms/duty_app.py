"""An app whose gate holds one entry back for ever, and who is called then.

``PECKER_TEST_ALARMS`` names a folder: `calls` has a line for each call of the callable,
and a process that finds the file `kill` takes it away and dies in the call.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from celery import Celery

from celery_pecker.alarms import Notice, step
from celery_pecker.kernel.clock import pause

FOLDER = Path(os.environ.get("PECKER_TEST_ALARMS", "."))
if "PECKER_TEST_ALARMS" in os.environ:  # a process of its own, no test that imports it
    step.HOLD = 2.0  # a survivor takes over sooner

app = Celery("duty", broker=os.environ.get("PECKER_TEST_BROKER", "memory://"))
app.conf.update(
    task_default_queue=os.environ.get("PECKER_TEST_QUEUE", "celery"),
    pecker_dsn=os.environ.get("PECKER_TEST_ALARMS_DSN"),
    pecker_gate="tests.integration.alarms.duty_app:gate",
    pecker_worker={"scheduler"},
    pecker_alarms={"held": {"after": 1.0}, "silent": {"after": 1.0}},
    pecker_alarms_to={"duty": "tests.integration.alarms.duty_app:page"},
    beat_schedule={
        name: {"task": "duty.nothing", "schedule": 0.5} for name in ("held", "runs")
    },
)
if "PECKER_TEST_ALARMS_LOCAL" in os.environ:  # only workers claim it
    app.conf.beat_schedule["held"]["pecker"] = {"run": "local"}


class Gate:
    """Holds one entry, and thinks about it for a while when it is first asked."""

    def __init__(self) -> None:
        self._thinks = 1.0

    def held(self, names: Sequence[str]) -> list[str]:
        """Return it."""
        if names:
            pause(self._thinks)
            self._thinks = 0.0
        return [name for name in names if name == "held"]


def gate(app: Celery) -> Gate:
    """Return the gate."""
    del app
    return Gate()


@app.task(name="duty.nothing")
def nothing() -> None:
    """Do nothing."""


def page(notice: Notice) -> None:
    """Write down who calls; die where a file asks for it."""
    try:
        (FOLDER / "kill").unlink()
    except FileNotFoundError:
        with (FOLDER / "calls").open("a") as calls:
            calls.write(f"{os.getpid()} {notice.id} {notice.event} {notice.subject}\n")
    else:
        (FOLDER / "died").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
