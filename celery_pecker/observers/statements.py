"""What people ask of the tables, in whatever transaction there is.

Flows are written once, for what blocks and for what is awaited: they yield statements
and are sent their rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from celery_pecker.kernel.adapters.adapter import Flow, Statement
from celery_pecker.kernel.errors import NameTaken, NoCapacity, ObserverRefused
from celery_pecker.kernel.rendering import render
from celery_pecker.kernel.sql import statements
from celery_pecker.observers.model import (
    Answer,
    CountRow,
    EventRow,
    NodeRow,
    ObserverRow,
    Place,
    Status,
)

BEFORE = {
    Status.CREATED: Answer.NOT_ACTIVE_YET,
    Status.PROCESSING: Answer.ASKED,
    Status.ON_DELETING: Answer.ALREADY_ASKED,
    Status.DELETED: Answer.ALREADY_DELETED,
}
MOST = 10_000
"""Rows of one listing at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """An observer that is to be started, checked."""

    name: str
    kind: str
    args: str
    """As JSON."""
    weight: int | None = None
    """None: as its kind was declared by a host."""
    refuse: bool = False
    on_parked: str | None = None
    on_moved: str | None = None


class Statements:
    """The statements for the tables of one schema."""

    def __init__(self, schema: str) -> None:
        self._schema = schema

    def start(self, one: Start) -> Flow[int]:
        """Record an observer; return its id.

        Raises:
            NameTaken: one of this name is there.
            NoCapacity: no host has room, and it was to be refused then.
            ObserverRefused: its kind is unknown, or it is heavier than every capacity.
        """
        params = {
            "now": None,
            "name": one.name,
            "kind": one.kind,
            "args": one.args,
            "weight": one.weight,
            "refuse": one.refuse,
            "on_parked": one.on_parked,
            "on_moved": one.on_moved,
        }
        [(made, weight, largest, has_room)] = yield self._statement(
            "start_observer", params
        )
        if made is not None:
            return int(made)
        if weight is None:
            rows = yield self._statement("list_observer_kinds", {})
            names = ", ".join(repr(kind) for (kind,) in rows)
            message = (
                f"kind {one.kind!r} is unknown: no host has declared it; known are"
                f" {names or 'none'}"
            )
            raise ObserverRefused(message)
        if largest is not None and weight > largest:
            message = (
                f"observer {one.name!r} has the weight {weight}, and the largest host"
                f" a capacity of {largest}: allowed are 1 to {largest}"
            )
            raise ObserverRefused(message)
        if not has_room:
            message = (
                f"no host has room for observer {one.name!r} (weight {weight}); start"
                " it with full='wait', or add a host"
            )
            raise NoCapacity(message)
        message = (
            f"an observer named {one.name!r} is there already; stop it first, or choose"
            " another name"
        )
        raise NameTaken(message)

    def stop(self, name: str) -> Flow[Answer]:
        """Ask for the end of an observer."""
        return self._asked("stop_observer", name)

    def restart(self, name: str) -> Flow[Answer]:
        """Ask for a new beginning of an observer."""
        answer = yield from self._asked("restart_observer", name)
        return Answer.ASKED if answer is Answer.NOT_ACTIVE_YET else answer

    def rows(  # noqa: PLR0913  # what a row may be chosen by
        self,
        *,
        name: str | None = None,
        kind: str | None = None,
        node: str | None = None,
        place: str | None = None,
        after: str | None = None,
        deleted: bool = False,
        limit: int = 1_000,
    ) -> Flow[list[ObserverRow]]:
        """Return observers by name."""
        rows = yield self._statement(
            "list_observers",
            {
                "now": None,
                "name": name,
                "kind": kind,
                "node": node,
                "place": place,
                "after": after,
                "deleted": deleted,
                "most": min(limit, MOST),
            },
        )
        return [observer_row(row) for row in rows]

    def nodes(self, *, dead: bool = False) -> Flow[list[NodeRow]]:
        """Return the hosts, by name."""
        params = {"now": None, "dead": dead}
        rows = yield self._statement("list_observer_nodes", params)
        return [
            NodeRow(
                node=node,
                name=name,
                pid=pid,
                state=state,
                capacity=capacity,
                load=int(load),
                observers=count,
                kinds=tuple(kinds),
                lease=lease,
                started_at=started_at,
                left_at=left_at,
            )
            for (
                node,
                name,
                pid,
                state,
                capacity,
                load,
                count,
                kinds,
                lease,
                started_at,
                left_at,
            ) in rows
        ]

    def counts(self) -> Flow[list[CountRow]]:
        """Return how many there are of each kind in each place."""
        rows = yield self._statement("summarize_observers", {"now": None})
        return [
            CountRow(kind=kind, place=Place(place), count=count, weight=weight)
            for kind, place, count, weight, _, _ in rows
        ]

    def history(self, name: str | None, limit: int) -> Flow[list[EventRow]]:
        """Return the newest events, newest first."""
        params = {"name": name, "most": min(limit, MOST)}
        rows = yield self._statement("read_observer_history", params)
        return [
            EventRow(
                id=number,
                observer=observer,
                name=of,
                kind=kind,
                event=event,
                node=node,
                node_name=node_name,
                epoch=epoch,
                at=at,
                error=error,
            )
            for (
                number,
                observer,
                of,
                kind,
                event,
                node,
                node_name,
                epoch,
                at,
                error,
            ) in rows
        ]

    def order(self, node: str, state: str) -> Flow[int]:
        """Set the state of hosts of that name or id; return how many they are."""
        text = "order_observer_nodes"
        rows = yield self._statement(text, {"node": node, "state": state})
        return len(rows)

    def hold(
        self, ident: int, epoch: int, node: str, state: str | None, left: float
    ) -> Flow[bool]:
        """Hold an observer's row against other lives; say whether it is held."""
        params = {
            "id": ident,
            "epoch": epoch,
            "node": node,
            "state": state,
            "left_ms": int(left * 1000),
        }
        [(held,)] = yield self._statement("hold_observer", params)
        return bool(held)

    def _asked(self, label: str, name: str) -> Flow[Answer]:
        rows = yield self._statement(label, {"now": None, "name": name})
        if not rows:
            return Answer.NOT_FOUND
        [(asked, before)] = rows
        answer = BEFORE[Status(before)]
        # Another client asked for it after this statement had read the row.
        late = answer in {Answer.ASKED, Answer.NOT_ACTIVE_YET} and not asked
        return Answer.ALREADY_ASKED if late else answer

    def _statement(self, label: str, params: Mapping[str, object]) -> Statement:
        return Statement(label, _text(label, self._schema), params)


@cache
def _text(label: str, schema: str) -> str:
    return render(statements()[label], schema)


def observer_row(row: Sequence[Any]) -> ObserverRow:
    """Return an observer from a row of a listing."""
    (
        ident,
        name,
        kind,
        args,
        weight,
        status,
        place,
        node,
        node_name,
        epoch,
        failures,
        moves,
        last_error,
        state,
        not_before,
        parked_at,
        created_at,
        modified_at,
    ) = row
    return ObserverRow(
        id=ident,
        name=name,
        kind=kind,
        args=json.loads(args),
        weight=weight,
        status=Status(status),
        place=Place(place),
        node=node,
        node_name=node_name,
        epoch=epoch,
        failures=failures,
        moves=moves,
        last_error=last_error,
        state=None if state is None else json.loads(state),
        not_before=not_before,
        parked_at=parked_at,
        created_at=created_at,
        modified_at=modified_at,
    )
