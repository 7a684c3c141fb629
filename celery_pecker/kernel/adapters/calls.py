"""Methods that block, and the same methods awaited: the body of each stands once.

A method checks its arguments and hands a flow to `Calls.run`, with the connection that
it was called with. `awaited` makes the other method of it: one whose connection is
driven by awaiting, or that runs on a thread where there is none.
"""

import asyncio
from collections import ChainMap
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, wraps
from inspect import iscoroutine
from typing import Any, ClassVar, ParamSpec, TypeVar, cast

from celery_pecker.kernel.adapters import adapter_of, async_adapter_of, drive
from celery_pecker.kernel.adapters.adapter import Flow, Rows, Statement
from celery_pecker.kernel.connections import MAX_CONNECTIONS, Connections
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings


class OwnAdapter:
    """Runs statements over a connection of ours: each of them commits."""

    in_transaction = True

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def database_key(self) -> object:
        """Return which database it is."""
        return self.database.where

    def require(self) -> None:
        """Ask for nothing: no transaction is joined."""

    def run(self, statement: Statement) -> Rows:
        """Return the rows of a statement."""
        return self.database.run(statement.label, **statement.params)

    def transaction(self, several: bool) -> AbstractContextManager[None]:
        """Open one transaction for several statements; a single one is its own."""
        return self.database.transaction() if several else nullcontext()


T = TypeVar("T")
Options = ParamSpec("Options")


class Calls:
    """Runs flows in the caller's transaction, else over connections of ours."""

    def __init__(
        self, settings: Settings, *, role: str, most: int = MAX_CONNECTIONS
    ) -> None:
        self.connections = Connections(settings, role=role, most=most)

    def run(
        self,
        flow_in: Callable[[object], Flow[T]],
        connection: Any,
        *,
        several: bool = False,
    ) -> T:
        """Return what the flow for a place returns.

        ``several``: over a connection of ours its statements commit together. With a
        connection that is awaited, what is returned is to be awaited: a method that is
        `awaited` returns it as it is.
        """
        if isinstance(connection, _Awaited):
            if connection.real is None:
                work = asyncio.to_thread(self._run_own, flow_in, several)
            else:
                work = async_adapter_of(connection.real).drive(flow_in)
            return cast("T", work)
        if connection is not None:
            return drive(adapter_of(connection), flow_in)
        return self._run_own(flow_in, several)

    def close(self) -> None:
        """Close the connections of ours that are idle."""
        self.connections.close()

    def _run_own(self, flow_in: Callable[[object], Flow[T]], several: bool) -> T:
        with self.connections.connection() as database:
            own = OwnAdapter(database)
            with own.transaction(several):
                return drive(own, flow_in)


class _Awaited:
    """A connection or session that is awaited; None: a thread is, that has one."""

    def __init__(self, real: Any) -> None:
        self.real = real


def names_one(connection: Any) -> bool:
    """Return whether a method was called with a connection, blocking or awaited."""
    real = connection.real if isinstance(connection, _Awaited) else connection
    return real is not None


def awaited(
    method: Callable[Options, T], *, only_statements: bool = False
) -> Callable[Options, Coroutine[Any, Any, T]]:
    """Return the method for connections and sessions that are awaited.

    Without a connection all of it runs on a thread, with ``only_statements`` just the
    statements: what it calls of the user's then runs in the thread of the event loop.
    """

    @wraps(method)
    async def call(*args: Options.args, **kwargs: Options.kwargs) -> T:
        connection = kwargs.get("connection")
        if connection is None and not only_statements:
            return await asyncio.to_thread(method, *args, **kwargs)
        kwargs["connection"] = _Awaited(connection)
        result = method(*args, **kwargs)
        return await result if iscoroutine(result) else result

    name = method.__name__
    call.__name__ = f"a{name}"
    call.__qualname__ = method.__qualname__.removesuffix(name) + call.__name__
    call.__doc__ = f"Do as `{name}`, for a connection or session that is awaited."
    return call


def real(proxy: Any) -> Any:
    """Return the app or task itself, where it is a proxy of one."""
    return getattr(proxy, "_get_current_object", lambda: proxy)()


class PerApp:
    """Belongs to a Celery app; asks nothing of any server until it is called."""

    role: ClassVar[str]
    """Part of the connections' `application_name`."""

    def __init__(self, app: Any, **own: str | None) -> None:
        """Take the app, and settings that count before its own."""
        self.app: Any = real(app)
        self._own = {key: value for key, value in own.items() if value is not None}

    @cached_property
    def settings(self) -> Settings:
        """What the app's configuration says, checked once."""
        conf: Any = ChainMap(self._own, self.app.conf) if self._own else self.app.conf
        settings = Settings.read(conf, main=self.app.main)
        Database.of(settings, role=self.role)  # refuses what is no DSN
        return settings

    def close(self) -> None:
        """Close the connections of ours that are idle."""
        if "_calls" in vars(self):
            self._calls.close()

    @cached_property
    def _calls(self) -> Calls:
        return Calls(self.settings, role=self.role)
