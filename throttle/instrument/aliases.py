"""Django's databases, made to count, by their aliases.

Connections of psycopg 3 count themselves, with commits, COPY and what a server-side
cursor fetches. Those of other drivers count what passes Django's cursors.
"""

from collections.abc import Callable, Mapping
from typing import Any

import psycopg
from django.db import connections
from django.db.backends.signals import connection_created

from throttle.errors import Misconfigured
from throttle.instrument.connections import count, leave
from throttle.instrument.cursors import Timed
from throttle.meter import Meter, Tally

UID = "throttle.instrument"


class Wrapper:
    """Counts what passes the cursors of a Django connection."""

    def __init__(self, tally: Tally, *, timing: bool) -> None:
        self._tally = tally
        self._timing = timing

    def __call__(
        self,
        execute: Callable[..., Any],
        sql: Any,
        params: Any,
        many: bool,
        context: Mapping[str, Any],
    ) -> Any:
        """Return what Django would return without it."""
        operations = len(params) if many and hasattr(params, "__len__") else 1
        tally = self._tally
        with Timed(tally, operations=operations, timing=self._timing) as timed:
            result = execute(sql, params, many, context)
            timed.rows = getattr(context["cursor"], "rowcount", 0) or 0
        return result


def install(databases: Mapping[str, str] | None, meter: Meter, *, timing: bool) -> None:
    """Count the aliases' statements, on open connections and later ones."""
    _check(databases)
    uninstall()

    def created(*, connection: Any, **_: Any) -> None:
        alias = connection.alias
        if databases is None or alias in databases:
            name = alias if databases is None else databases[alias]
            _count(connection, meter.tally(name), timing=timing)

    connection_created.connect(created, dispatch_uid=UID, weak=False)
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None:
            created(connection=connection)


def uninstall() -> None:
    """Stop counting; connections of other threads count until they are remade."""
    connection_created.disconnect(dispatch_uid=UID)
    for connection in connections.all(initialized_only=True):
        _leave(connection)


def _check(databases: Mapping[str, str] | None) -> None:
    known = list(connections)
    for alias in databases or {}:
        if alias not in known:
            raise Misconfigured(
                f"instrument.django: {alias!r} is no alias of DATABASES; allowed are"
                f" {', '.join(known)}"
            )


def _count(connection: Any, tally: Tally, *, timing: bool) -> None:
    _leave(connection)
    if isinstance(connection.connection, psycopg.Connection):
        count(connection.connection, tally, timing=timing)
    else:
        connection.execute_wrappers.append(Wrapper(tally, timing=timing))


def _leave(connection: Any) -> None:
    if isinstance(connection.connection, psycopg.Connection):
        leave(connection.connection)
    connection.execute_wrappers[:] = [
        one for one in connection.execute_wrappers if not isinstance(one, Wrapper)
    ]
