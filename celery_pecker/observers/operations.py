"""Start, stop and restart observers, in whatever transaction there is; drain hosts.

Flows are written once, for what blocks and for what is awaited: they yield statements
and are sent their rows.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from celery_pecker.kernel.adapters import drive
from celery_pecker.kernel.adapters.adapter import Flow, Statement
from celery_pecker.kernel.adapters.calls import OwnAdapter
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import NameTaken, NoCapacity, ObserverRefused
from celery_pecker.observers import refusals
from celery_pecker.observers.kind import Observer
from celery_pecker.observers.model import Answer, Status

BEFORE = {
    Status.CREATED: Answer.NOT_ACTIVE_YET,
    Status.PROCESSING: Answer.ASKED,
    Status.ON_DELETING: Answer.ALREADY_ASKED,
    Status.DELETED: Answer.ALREADY_DELETED,
}


Start = Mapping[str, Any]
"""The parameters of the statement that starts an observer, checked."""


def checked(  # noqa: PLR0913  # all options of one
    kind: str,
    name: str,
    args: Mapping[str, Any],
    *,
    known: Observer | None,
    weight: int | None = None,
    refuse: bool = False,
    on_parked: str | None = None,
    on_moved: str | None = None,
) -> Start:
    """Return what is to be started; what is not said is as its kind was declared.

    Args:
        kind: as it was declared.
        name: unique among those that are not deleted.
        args: the arguments of the kind's function, by name.
        known: the kind, where its code is here; None: a host has declared it.
        weight: None: that of the kind.
        refuse: raise where no host has room, instead of waiting for one.
        on_parked: a signature as JSON.
        on_moved: a signature as JSON.

    Raises:
        ObserverRefused: it cannot be started as it is.
    """
    refusals.text("kind", kind)
    refusals.text("name", name)
    if known is not None:
        args = refusals.bound(kind, known.function, (), {**args})
        weight = known.options.weight if weight is None else weight
        on_parked = on_parked or known.options.on_parked
        on_moved = on_moved or known.options.on_moved
    return {
        "name": name,
        "kind": kind,
        "args": refusals.arguments(name, args),
        "weight": None if weight is None else refusals.weight(kind, weight),
        "refuse": refuse,
        "on_parked": on_parked,
        "on_moved": on_moved,
    }


def start_flow(schema: str, one: Start) -> Flow[int]:
    """Record an observer; return its id.

    Raises:
        NameTaken: one of this name is there.
        NoCapacity: no host has room, and it was to be refused then.
        ObserverRefused: its kind is unknown, or it is heavier than every capacity.
    """
    asked = Statement.of(schema, "start_observer", **one)
    [(made, weight, largest, has_room)] = yield asked
    name, kind = one["name"], one["kind"]
    if made is not None:
        return int(made)
    if weight is None:
        rows = yield Statement.of(schema, "list_observer_kinds")
        names = ", ".join(repr(known) for (known,) in rows)
        raise ObserverRefused(
            f"kind {kind!r} is unknown: no host has declared it; known are"
            f" {names or 'none'}"
        )
    if largest is not None and weight > largest:
        raise ObserverRefused(
            f"observer {name!r} has the weight {weight}, and the largest host"
            f" a capacity of {largest}: allowed are 1 to {largest}"
        )
    if not has_room:
        raise NoCapacity(
            f"no host has room for observer {name!r} (weight {weight}); start"
            " it with full='wait', or add a host"
        )
    raise NameTaken(
        f"an observer named {name!r} is there already; stop it first, or choose"
        " another name"
    )


def stop_flow(schema: str, name: str) -> Flow[Answer]:
    """Ask for the end of an observer."""
    return _answered(Statement.of(schema, "stop_observer", name=name))


def restart_flow(schema: str, name: str) -> Flow[Answer]:
    """Ask for a new beginning of an observer."""
    asked = Statement.of(schema, "restart_observer", name=name)
    answer = yield from _answered(asked)
    return Answer.ASKED if answer is Answer.NOT_ACTIVE_YET else answer


def _answered(asking: Statement) -> Flow[Answer]:
    rows = yield asking
    if not rows:
        return Answer.NOT_FOUND
    [(was_changed, before)] = rows
    answer = BEFORE[Status(before)]
    # Another client asked for it after this statement had read the row.
    late = answer in {Answer.ASKED, Answer.NOT_ACTIVE_YET} and not was_changed
    return Answer.ALREADY_ASKED if late else answer


T = TypeVar("T")


def start(
    database: Database, kind: str, name: str, args: Mapping[str, Any], **options: Any
) -> int:
    """Record an observer by the name of its kind; return its id.

    Args:
        database: the schema it is recorded in.
        kind: as it was declared.
        name: unique among those that are not deleted.
        args: the arguments of the kind's function, by name.
        options: as of `checked`.

    Raises:
        NameTaken: an observer of this name is there.
        NoCapacity: no host has room, and `refuse` is set.
        ObserverRefused: its kind is unknown, or it is heavier than every capacity.
    """
    one = checked(kind, name, args, **options)
    return _run(database, start_flow(database.schema, one))


def stop(database: Database, name: str) -> Answer:
    """Ask for the end of an observer."""
    return _run(database, stop_flow(database.schema, name))


def restart(database: Database, name: str) -> Answer:
    """End the life of an observer and begin another; a parked one begins again."""
    return _run(database, restart_flow(database.schema, name))


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
