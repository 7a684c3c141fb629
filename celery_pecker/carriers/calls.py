"""Methods that block, and the same methods awaited: the body of each stands once.

A method checks its arguments and hands a flow to `Calls.run`, with the connection that
it was called with. `awaited` makes the other method of it: one whose connection is
driven by awaiting, or that runs on a thread where there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from celery_pecker.carriers import async_carrier_of, carrier_of, drive
from celery_pecker.carriers.carrier import Flow
from celery_pecker.carriers.own import OwnCarrier
from celery_pecker.kernel.connections import Connections
from celery_pecker.kernel.settings import Settings

T = TypeVar("T")
Options = ParamSpec("Options")


class Calls:
    """Runs flows in the caller's transaction, else over connections of ours."""

    def __init__(self, settings: Settings, *, role: str) -> None:
        self.connections = Connections(settings, role=role)

    def run(
        self, flow: Callable[[], Flow[T]], connection: Any, *, several: bool = False
    ) -> T:
        """Return what the flow returns.

        ``several``: over a connection of ours its statements commit together. With a
        connection that is awaited, what is returned is to be awaited: a method that is
        `awaited` returns it as it is.
        """
        if isinstance(connection, _Awaited):
            carrier = async_carrier_of(connection.real)
            return cast("T", carrier.drive(lambda _: flow()))
        if connection is not None:
            return drive(carrier_of(connection), lambda _: flow())
        with self.connections.lend() as database:
            own = OwnCarrier(database)
            with own.together(several):
                return drive(own, lambda _: flow())

    def close(self) -> None:
        """Close the connections of ours that are idle."""
        self.connections.close()


class _Awaited:
    """A connection or session that is awaited."""

    def __init__(self, real: Any) -> None:
        self.real = real


def awaited(
    method: Callable[Options, T],
) -> Callable[Options, Coroutine[Any, Any, T]]:
    """Return the method for connections and sessions that are awaited."""

    @wraps(method)
    async def call(*args: Options.args, **kwargs: Options.kwargs) -> T:
        connection = kwargs.get("connection")
        if connection is None:
            return await asyncio.to_thread(method, *args, **kwargs)
        kwargs["connection"] = _Awaited(connection)
        return await cast("Awaitable[T]", method(*args, **kwargs))

    name = method.__name__
    call.__name__ = f"a{name}"
    call.__qualname__ = method.__qualname__.removesuffix(name) + call.__name__
    call.__doc__ = f"Do as `{name}`, for a connection or session that is awaited."
    return call
