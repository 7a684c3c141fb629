"""Clients that count what they send, each beside the same client as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from django import setup
from django.conf import settings
from django.db.backends.postgresql.base import DatabaseWrapper
from opentelemetry.instrumentation import psycopg as traced
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine, event, text
from sqlalchemy.pool import StaticPool

from throttle import instrument
from throttle.meter import Meter

Ask = Callable[[], object]
AsyncAsk = Callable[[], Coroutine[Any, Any, object]]
SQL = "select 1"
PLAIN = "as it is"
METER, CHILD = Meter(), Meter()
CHILD.share(1)
CHILD.enter(0)  # writes shared memory, as a child of a prefork worker does
OURS = {
    "throttle, operations only": (False, METER),
    "throttle": (True, METER),
    "throttle, operations only, in a child": (False, CHILD),
    "throttle, in a child": (True, CHILD),
}
"""Who counts; whether seconds and rows too, and where."""
TRACED = {
    "OpenTelemetry, sampled out": ALWAYS_OFF,
    "OpenTelemetry, recorded": ALWAYS_ON,
}
NOTHING = "a hook that does nothing"


@dataclass(frozen=True, slots=True)
class Clients:
    """The same question by who counts, and what makes it that one's turn."""

    asks: dict[str, Ask]
    switch: Callable[[str], object] = lambda _who: None


class Idle(psycopg.Cursor[Any]):
    """A cursor that sends nothing, so that only its wrapper's time is left."""

    def execute(
        self,
        query: Any,
        params: Any = None,
        *,
        prepare: bool | None = None,
        binary: bool | None = None,
    ) -> Any:
        """Return at once."""
        return self


class AsyncIdle(psycopg.AsyncCursor[Any]):
    """The same to be awaited."""

    async def execute(
        self,
        query: Any,
        params: Any = None,
        *,
        prepare: bool | None = None,
        binary: bool | None = None,
    ) -> Any:
        """Return at once."""
        return self


def idle(stack: ExitStack, dsn: str) -> Clients:
    """Return psycopg's execute without what psycopg and the server do."""
    kinds = dict(_kinds(Idle, traced._new_cursor_factory))  # noqa: SLF001
    connection = stack.enter_context(psycopg.connect(dsn))
    return Clients({who: _ask(kind(connection)) for who, kind in kinds.items()})


@asynccontextmanager
async def async_idle(dsn: str) -> AsyncIterator[dict[str, AsyncAsk]]:
    """Give the same to be awaited."""
    kinds = dict(_kinds(AsyncIdle, traced._new_cursor_async_factory))  # noqa: SLF001
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield {who: _ask(kind(connection)) for who, kind in kinds.items()}


def cursors(stack: ExitStack, dsn: str) -> Clients:
    """Return psycopg's execute, all the way to the server."""
    kinds = dict(_kinds(psycopg.Cursor, traced._new_cursor_factory))  # noqa: SLF001
    connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
    return Clients({who: _ask(kind(connection)) for who, kind in kinds.items()})


def engines(stack: ExitStack, dsn: str) -> Clients:
    """Return SQLAlchemy's execute; the hook is `after_cursor_execute`."""
    raw = stack.enter_context(psycopg.connect(dsn))
    asks: dict[str, Ask] = {}
    statement = text(SQL)
    for who in (PLAIN, *OURS, NOTHING):
        engine = create_engine(
            "postgresql+psycopg://", creator=lambda: raw, poolclass=StaticPool
        )
        stack.callback(engine.dispose)
        if who == NOTHING:
            event.listen(engine, "after_cursor_execute", lambda *_: None)
        asks[who] = partial(engine.connect().execute, statement)
    return Clients(asks, partial(_switch, raw))


def django(stack: ExitStack, dsn: str) -> Clients:
    """Return the execute of Django's cursors; the hook is an execute wrapper."""
    if not settings.configured:
        settings.configure(USE_TZ=True)
        setup()
    first = DatabaseWrapper(_settings(dsn), alias=PLAIN)
    first.ensure_connection()
    stack.callback(first.close)
    asks: dict[str, Ask] = {}
    for who in (PLAIN, *OURS, NOTHING):
        wrapper = DatabaseWrapper(_settings(dsn), alias=who)
        wrapper.connection = first.connection
        if who == NOTHING:
            wrapper.execute_wrappers.append(lambda execute, *all_: execute(*all_))
        _switch(first.connection, who)
        asks[who] = _ask(wrapper.cursor())
    return Clients(asks)


def _kinds(kind: Any, made: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Return classes of cursors by who counts."""
    found: list[tuple[str, Any]] = [(PLAIN, kind)]
    for who, (timing, meter) in OURS.items():
        counted = instrument.psycopg(kind, timing=timing, meter=meter)
        found.append((who, counted))
    for who, sampler in TRACED.items():
        provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        found.append((who, made(base_factory=kind, tracer_provider=provider)))
    return found


def _switch(raw: Any, who: str) -> None:
    """The one connection of all counts for whose turn it is.

    One of each would differ by more than what is asked for: by the core that the
    server's process has happened to get.
    """
    if who in OURS:
        timing, meter = OURS[who]
        instrument.psycopg(raw, timing=timing, meter=meter)
    else:
        instrument.uninstall(raw)


def _ask(cursor: Any) -> Callable[[], Any]:
    execute = cursor.execute
    return lambda: execute(SQL)


def _settings(dsn: str) -> dict[str, Any]:
    given: dict[str, Any] = conninfo_to_dict(dsn)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password"}
    names |= {"HOST": "host", "PORT": "port"}
    found: dict[str, Any] = {key: given.get(name, "") for key, name in names.items()}
    return found | {
        "ENGINE": "django.db.backends.postgresql",
        "ATOMIC_REQUESTS": False,
        "AUTOCOMMIT": True,
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": False,
        "OPTIONS": {},
        "TIME_ZONE": None,
        "TEST": {},
    }
