"""Into which transaction messages go, and write them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from celery_pecker.kernel.adapters import (
    Adapter,
    adapter_of,
    async_adapter_of,
    django,
    drive,
)
from celery_pecker.kernel.adapters.adapter import Flow
from celery_pecker.kernel.adapters.calls import Calls, names_one
from celery_pecker.kernel.adapters.own_connection import OwnAdapter
from celery_pecker.kernel.connections import MAX_IDLE, Connections
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox import hook
from celery_pecker.outbox.model import Entry
from celery_pecker.outbox.recording import Recorder
from celery_pecker.outbox.sinks import Joined, Keeping, Using, Writing

T = TypeVar("T")


class Writer:
    """Writes the messages of one outbox.

    They join the connection that was named, else the inner one of the blocks of this
    outbox, else the atomic block of Django, else they commit by themselves.
    """

    def __init__(self, app: Any, settings: Settings, alias: str) -> None:
        self._app = app
        self._limit = settings.outbox_limit
        self._alias = alias
        self._recorder = Recorder(settings.schema)
        # A call by itself is short: few connections are enough for all threads, which
        # wait for their turn. Blocks of user code may nest.
        self._calls = Calls(settings, role="outbox", most=MAX_IDLE)
        self._blocks = Connections(settings, role="outbox", most=None)

    def write(
        self,
        entries: list[Entry],
        connection: Any,
        finish: Callable[[list[str]], T],
        *,
        copies: bool = False,
    ) -> T:
        """Write the messages; return what is made of the ids of tasks that will run.

        With a connection that is awaited, that is to be awaited (`Calls.run`).
        """

        def flow_in(place: object) -> Flow[T]:
            return finish((yield from self._recorder.flow(entries, copies, place)))

        if not entries:
            return finish([])
        if not names_one(connection):
            block = hook.block_of(self)
            if block is not None:
                return finish(block.take_all(entries, copies=copies))
            if connection is None:
                return finish(self._alone(entries, copies))
        return self._calls.run(flow_in, connection, several=len(entries) > 1)

    def using(self, connection: Any) -> Using:
        """Return a block in which all that is sent joins a transaction."""

        def writing() -> Writing:
            adapter = adapter_of(connection)
            if adapter.in_transaction:
                adapter.require()
            return self._in(adapter)

        def keeping() -> Keeping:
            return Keeping(
                self._app,
                limit=self._limit,
                owner=self,
                adapter=async_adapter_of(connection),
                flow_of=lambda entries: partial(self._recorder.flow, entries, False),
            )

        return Using(writing, keeping)

    @contextmanager
    def transaction(self) -> Iterator[Database]:
        """Yield a transaction of ours: all that is sent inside commits at its end."""
        with (
            self._blocks.connection() as database,
            database.transaction(),
            hook.into(self._in(OwnAdapter(database))),
        ):
            yield database

    def outside(self) -> Writing:
        """Return where a message goes that is sent outside of all blocks."""
        return Writing(self._app, self._limit, self._alone, owner=self)

    def close(self) -> None:
        """Close the connections of ours that are idle."""
        self._calls.close()
        self._blocks.close()

    def _in(self, adapter: Adapter) -> Writing:
        joined = Joined(adapter)

        def write(entries: list[Entry], copies: bool) -> list[str]:
            joined.check()
            ids = drive(adapter, partial(self._recorder.flow, entries, copies))
            joined.begin()
            return ids

        return Writing(self._app, self._limit, write, owner=self)

    def _alone(self, entries: list[Entry], copies: bool) -> list[str]:
        flow_in = partial(self._recorder.flow, entries, copies)
        atomic = django.atomic_block(self._alias)
        if atomic is not None:
            return drive(atomic, flow_in)
        return self._calls.run(flow_in, None, several=len(entries) > 1)
