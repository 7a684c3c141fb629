"""What people do to observers, over one connection, by names alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from celery_pecker.kernel.adapters import drive
from celery_pecker.kernel.adapters.adapter import Flow
from celery_pecker.kernel.adapters.calls import OwnAdapter
from celery_pecker.kernel.database import Database
from celery_pecker.observers import statements
from celery_pecker.observers.kind import Observer
from celery_pecker.observers.model import Answer

T = TypeVar("T")


def start(  # noqa: PLR0913  # all options of one
    database: Database,
    kind: str,
    name: str,
    args: Mapping[str, Any],
    *,
    weight: int | None = None,
    refuse: bool = False,
    known: Observer | None = None,
) -> int:
    """Record an observer by the name of its kind; return its id.

    Args:
        database: the schema it is recorded in.
        kind: as it was declared.
        name: unique among those that are not deleted.
        args: the arguments of the kind's function, by name.
        weight: None: as its kind was declared.
        refuse: raise where no host has room, instead of waiting for one.
        known: the kind, where its code is here; None: a host has declared it.

    Raises:
        NameTaken: an observer of this name is there.
        NoCapacity: no host has room, and `refuse` is set.
        ObserverRefused: its kind is unknown, or it is heavier than every capacity.
    """
    one = statements.checked(
        kind, name, args, known=known, weight=weight, refuse=refuse
    )
    return _run(database, statements.start(database.schema, one))


def stop(database: Database, name: str) -> Answer:
    """Ask for the end of an observer."""
    return _run(database, statements.stop(database.schema, name))


def restart(database: Database, name: str) -> Answer:
    """End the life of an observer and begin another; a parked one begins again."""
    return _run(database, statements.restart(database.schema, name))


def drain(database: Database, node: str) -> int:
    """Have hosts of this name or id hand over what they hold; return how many."""
    return _order(database, node, "draining")


def undrain(database: Database, node: str) -> int:
    """Let hosts of this name or id take observers again; return how many."""
    return _order(database, node, "up")


def _order(database: Database, node: str, state: str) -> int:
    return database.change("order_observer_nodes", node=node, state=state)


def _run(database: Database, flow: Flow[T]) -> T:
    return drive(OwnAdapter(database), lambda _: flow)
