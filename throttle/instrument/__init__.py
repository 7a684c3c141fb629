"""Clients of databases, made to count what they do. Each is switched on by name.

    from throttle import instrument

    Connection = instrument.psycopg(database="main")         # a class to connect with
    instrument.psycopg(connection_or_pool, database="main")  # what is there already
    instrument.sqlalchemy(engine, database="main")
    instrument.django({"default": "main"})                   # alias: database
    instrument.uninstall(connection_or_pool_or_engine)

What counts as an operation: a statement, whether or not it fails; each set of
parameters of `executemany`; a COPY, a stream; each fetch from a server-side cursor; a
commit and a rollback. Seconds are as the client sees them, from asking to the answer.
No instrument can make a statement fail or wait.
"""

from collections.abc import Mapping
from typing import Any

from throttle.limits import check_name
from throttle.meter import Meter
from throttle.meter import meter as of_this_process

__all__ = ["django", "psycopg", "sqlalchemy", "uninstall"]


def psycopg(
    target: Any = None,
    database: str = "main",
    *,
    timing: bool = True,
    meter: Meter = of_this_process,
) -> Any:
    """Let psycopg 3 count what it sends to `database`.

    `target` is a connection or a pool, synchronous or not, which counts from now on and
    is returned; or a class of connections or cursors, of which one that counts is
    returned. Without it: `psycopg.Connection`. A second call names another database.
    With `timing=False` operations are counted, seconds and rows are not.
    Raises `Misconfigured` for anything else.
    """
    from throttle.instrument import connections  # noqa: PLC0415 — loads psycopg

    return connections.install(target, meter.tally(database), timing=timing)


def sqlalchemy(
    engine: Any,
    database: str = "main",
    *,
    timing: bool = True,
    meter: Meter = of_this_process,
) -> Any:
    """Let a SQLAlchemy engine, synchronous or not, count; it is returned.

    Connections that it has count when they are lent next. Raises `Misconfigured` if it
    is no engine.
    """
    from throttle.instrument import engines  # noqa: PLC0415

    return engines.install(engine, meter.tally(database), timing=timing)


def django(
    databases: Mapping[str, str] | None = None,
    *,
    timing: bool = True,
    meter: Meter = of_this_process,
) -> None:
    """Let Django's databases count, by alias: `{"default": "main"}`.

    Without names every alias counts under its own. Raises `Misconfigured` if there is
    no such alias. To be called once, where settings are there: in `AppConfig.ready`.
    """
    from throttle.instrument import aliases  # noqa: PLC0415

    for name in (databases or {}).values():
        check_name(name)
    aliases.install(databases, meter, timing=timing)


def uninstall(target: Any) -> None:
    """Stop the counting of a connection, pool or engine.

    `uninstall(instrument.django)` lets go of Django's databases.
    """
    if target is django:
        from throttle.instrument import aliases  # noqa: PLC0415

        aliases.uninstall()
    elif type(target).__module__.startswith("sqlalchemy."):
        from throttle.instrument import engines  # noqa: PLC0415

        engines.uninstall(target)
    else:
        from throttle.instrument import connections  # noqa: PLC0415

        connections.uninstall(target)
