"""What a worker answers of its hosts of observers, and how it drains them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from celery.worker.control import control_command, inspect_command

from celery_pecker.worker.remote_control import asked

if TYPE_CHECKING:
    from celery_pecker.kernel.database import Database

NAMED = 100
"""Observers of one host that are named, at most."""
NO_HOSTS = {"error": "this worker supervises no hosts: pecker_observers is not set"}


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
    from celery_pecker.observers import operations  # noqa: PLC0415  # PostgreSQL's driver

    return _ordered(state, operations.drain, "drained")


@control_command()
def pecker_undrain(state: Any) -> dict[str, Any]:
    """Let this worker's hosts take observers again."""
    from celery_pecker.observers import operations  # noqa: PLC0415  # PostgreSQL's driver

    return _ordered(state, operations.undrain, "undrained")


def _hosts(state: Any) -> Sequence[dict[str, Any]]:
    worker = state.consumer.controller
    info: dict[str, Any] = worker.blueprint.info(worker)
    return info.get("celery_pecker_observers") or []


def _ordered(
    state: Any, order: Callable[[Database, str], int], word: str
) -> dict[str, Any]:
    nodes = [one["node"] for one in _hosts(state) if one["node"]]
    if not nodes:
        return NO_HOSTS

    def all_of_them(database: Database) -> dict[str, Any]:
        count = sum(order(database, node) for node in nodes)
        return {"ok": f"{count} of {len(nodes)} hosts are {word}"}

    return asked(state, "observers", all_of_them)


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
