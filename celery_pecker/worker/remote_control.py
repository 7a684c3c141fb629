"""What a worker answers to ``celery inspect pecker`` and ``celery control pecker_…``.

A worker answers at once what it can answer by itself. A pause is a write to
PostgreSQL: it is made on a thread of its own, because remote control runs on the thread
that also takes messages, and a database that hangs must not hold those up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from celery.worker.control import control_command, inspect_command

from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.settings import Settings

if TYPE_CHECKING:
    from celery_pecker.kernel.database import Database

BY = "celery control"
"""The user in the history: a worker does not know the caller."""
ANSWER_TIMEOUT = 0.8
"""Seconds: the asker waits for one by default, for all workers together."""


@inspect_command()
def pecker(state: Any) -> dict[str, Any]:
    """Return the schedulers of this worker: what they hold, won and missed."""
    worker = state.consumer.controller
    info: dict[str, Any] = worker.blueprint.info(worker)
    return {"schedulers": info.get("celery_pecker") or []}


@control_command(args=[("name", str)], signature="<entry name>")
def pecker_pause(state: Any, name: str) -> dict[str, str]:
    """Let an entry's slots pass without a run."""
    return _change(state, name, paused=True)


@control_command(args=[("name", str)], signature="<entry name>")
def pecker_resume(state: Any, name: str) -> dict[str, str]:
    """Let an entry's slots run again."""
    return _change(state, name, paused=False)


def _change(state: Any, name: str, *, paused: bool) -> dict[str, str]:
    def write(database: Database) -> dict[str, str]:
        from celery_pecker.schedules.overview import Overview  # noqa: PLC0415  # as in `asked`

        overview = Overview(database)
        if paused:
            overview.pause(name, by=BY)
        else:
            overview.resume(name, by=BY)
        return {"ok": f"{name!r} is {'paused' if paused else 'resumed'}"}

    return asked(state, repr(name), write)


def asked(
    state: Any, subject: str, question: Callable[[Database], dict[str, Any]]
) -> dict[str, Any]:
    """Return what PostgreSQL answers, asked on a thread; or that it has not yet."""
    try:
        settings = Settings.read(state.app.conf, main=state.app.main)
    except PeckerError as error:
        return {"error": str(error)}

    # Each `celery` command imports this module: none waits for PostgreSQL's driver
    from celery_pecker.kernel.database import Database  # noqa: PLC0415

    answer: list[dict[str, Any]] = []

    def ask() -> None:
        database = Database.of(settings, role="remote")
        try:
            answer.append(question(database))
        except PeckerError as error:
            answer.append({"error": str(error)})
        finally:
            database.close()

    thread = threading.Thread(target=ask, name="pecker-remote", daemon=True)
    thread.start()
    thread.join(ANSWER_TIMEOUT)
    if answer:
        return answer[0]
    return {"error": f"{subject}: PostgreSQL has not answered yet; look again"}
