"""Into which transaction messages go, and write them there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from celery_pecker.carriers import (
    Carrier,
    async_carrier_of,
    carrier_of,
    django,
    drive,
)
from celery_pecker.carriers.own import OwnCarrier
from celery_pecker.kernel.connections import MAX_IDLE, Connections
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox import hook
from celery_pecker.outbox.model import Entry
from celery_pecker.outbox.recording import Recorder
from celery_pecker.outbox.sinks import Awaited, Using, Writing


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
        self._calls = Connections(settings, role="outbox", most=MAX_IDLE)
        self._blocks = Connections(settings, role="outbox", most=None)

    def write(
        self, entries: list[Entry], connection: Any, *, copies: bool = False
    ) -> list[str]:
        """Write the messages; return the ids of the tasks that will run."""
        if not entries:
            return []
        if connection is not None:
            return self._drive(carrier_of(connection), entries, copies=copies)
        block = hook.block_of(self)
        if block is not None:
            return block.take_all(entries, copies=copies)
        return self._alone(entries, copies=copies)

    async def awrite(
        self, entries: list[Entry], connection: Any, *, copies: bool = False
    ) -> list[str]:
        """Do as `write`, for a connection that is awaited."""
        if not entries:
            return []
        if connection is not None:
            carrier = async_carrier_of(connection)
            return await carrier.drive(
                lambda place: self._recorder.flow(place, entries, copies=copies)
            )
        block = hook.block_of(self)
        if block is not None:
            return block.take_all(entries, copies=copies)
        return await asyncio.to_thread(self._own, entries, copies=copies)

    def using(self, connection: Any) -> Using:
        """Give a block in which all that is sent joins a transaction."""

        def writing() -> Writing:
            carrier = carrier_of(connection)
            carrier.require()
            return self._in(carrier)

        def gathering() -> Awaited:
            async_carrier_of(connection)
            return Awaited(self._app, mode=None, limit=self._limit, owner=self)

        async def awrite(entries: list[Entry]) -> None:
            await self.awrite(entries, connection)

        return Using(writing, gathering, awrite)

    @contextmanager
    def transaction(self) -> Iterator[Database]:
        """Give a transaction of ours: all that is sent inside commits at its end."""
        with (
            self._blocks.lend() as database,
            database.transaction(),
            hook.into(self._in(OwnCarrier(database))),
        ):
            yield database

    def outside(self) -> Writing:
        """Return where a message goes that is sent outside of all blocks."""
        return Writing(
            self._app,
            self._limit,
            lambda entries, copies: self._alone(entries, copies=copies),
            owner=self,
        )

    def close(self) -> None:
        """Close the connections of ours that are idle."""
        self._calls.close()
        self._blocks.close()

    def _in(self, carrier: Carrier) -> Writing:
        return Writing(
            self._app,
            self._limit,
            lambda entries, copies: self._drive(carrier, entries, copies=copies),
            owner=self,
        )

    def _alone(self, entries: list[Entry], *, copies: bool) -> list[str]:
        atomic = django.atomic_block(self._alias)
        if atomic is not None:
            return self._drive(atomic, entries, copies=copies)
        return self._own(entries, copies=copies)

    def _own(self, entries: list[Entry], *, copies: bool) -> list[str]:
        with self._calls.lend() as database:
            own = OwnCarrier(database)
            with own.together(len(entries) > 1):
                return self._drive(own, entries, copies=copies)

    def _drive(
        self, carrier: Carrier, entries: Sequence[Entry], *, copies: bool
    ) -> list[str]:
        return drive(
            carrier, lambda place: self._recorder.flow(place, entries, copies=copies)
        )
