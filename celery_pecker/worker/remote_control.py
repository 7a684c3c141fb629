"""What a worker answers to ``celery inspect pecker`` and ``celery control pecker_…``.

A worker answers at once what it can answer by itself. A pause is a write to
PostgreSQL: it is made on a thread of its own, because remote control runs on the thread
that also takes messages, and a database that hangs must not hold those up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
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
    return _change(state, name, "pause")


@control_command(args=[("name", str)], signature="<entry name>")
def pecker_resume(state: Any, name: str) -> dict[str, str]:
    """Let an entry's slots run again."""
    return _change(state, name, "resume")


def _change(state: Any, name: str, act: str) -> dict[str, str]:
    def write(database: Database) -> dict[str, str]:
        from celery_pecker.schedules.overview import Overview  # noqa: PLC0415  # as in `asked`
        from celery_pecker.surfaces.views.schedules import SCHEDULES  # noqa: PLC0415

        done, _ = SCHEDULES.acts[act]
        done.call(Overview(database), name, BY)
        return {"ok": done.said(name)}

    return asked(state, name, write, act=f"schedules {act}")


def asked(
    state: Any,
    subject: str,
    question: Callable[[Database], dict[str, Any]],
    *,
    act: str = "",
) -> dict[str, Any]:
    """Return what PostgreSQL answers, asked on a thread; or that it has not yet.

    An act is recorded, once by each worker that was asked.
    """
    try:
        settings = Settings.read(state.app.conf, main=state.app.main)
    except PeckerError as error:
        return {"error": str(error)}

    # Each `celery` command imports this module: none waits for PostgreSQL's driver
    from celery_pecker.kernel.audit import recorded_over  # noqa: PLC0415
    from celery_pecker.kernel.database import Database  # noqa: PLC0415

    answer: list[dict[str, Any]] = []

    def ask() -> None:
        database = Database.of(settings, role="remote")
        try:
            if not act:
                answer.append(question(database))
                return
            told = (act, subject, BY, "remote control")
            with recorded_over(database, settings.app, *told):
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


NAMED = 100
"""Observers of one host that are named, at most."""
NO_HOSTS = {
    "error": "this worker supervises no hosts: 'observers' is not in pecker_worker"
}


@inspect_command(name="observers")
def observers(state: Any) -> dict[str, Any]:
    """Return the hosts of observers that this worker supervises, and what they run."""
    hosts = _hosts(state)
    if not hosts:
        return {"hosts": []}
    return asked(
        state, "observers", lambda database: {"hosts": _described(database, hosts)}
    )


@control_command()
def pecker_drain(state: Any) -> dict[str, Any]:
    """Have this worker's hosts of observers hand over what they hold."""
    return _ordered(state, "drain")


@control_command()
def pecker_undrain(state: Any) -> dict[str, Any]:
    """Let this worker's hosts take observers again."""
    return _ordered(state, "undrain")


def _hosts(state: Any) -> Sequence[dict[str, Any]]:
    worker = state.consumer.controller
    info: dict[str, Any] = worker.blueprint.info(worker)
    return info.get("celery_pecker_observers") or []


def _ordered(state: Any, act: str) -> dict[str, Any]:
    from celery_pecker.observers import operations  # noqa: PLC0415  # PostgreSQL's driver

    order = getattr(operations, act)
    nodes = [one["node"] for one in _hosts(state) if one["node"]]
    if not nodes:
        return NO_HOSTS

    def all_of_them(database: Database) -> dict[str, Any]:
        count = sum(order(database, node) for node in nodes)
        return {"ok": f"{count} of {len(nodes)} hosts are {act}ed"}

    return asked(state, " ".join(nodes), all_of_them, act=f"observers {act}")


def _described(
    database: Database, hosts: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the hosts with their rows in the tables."""
    from celery_pecker.observers.overview import ObserversOverview, Which  # noqa: PLC0415

    overview = ObserversOverview(database)
    rows = {row.node: row for row in overview.hosts()}
    described = []
    for host in hosts:
        row = rows.get(host["node"])
        page = overview.page(Which(node=host["node"]), limit=NAMED)
        described.append(
            {
                **host,
                "state": None if row is None else row.state,
                "load": None if row is None else row.load,
                "capacity": None if row is None else row.capacity,
                "lease": None if row is None else round(row.lease, 3),
                "observers": page.total,
                "names": {one.name: str(one.place) for one in page.rows},
            }
        )
    return described
