"""Into which transaction messages go, and write them there.

The flow is written once, for what blocks and for what is awaited: it yields statements
and is sent their rows.
"""

from collections.abc import Callable, Iterator, Sequence
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
from celery_pecker.kernel.adapters.adapter import Flow, Statement
from celery_pecker.kernel.adapters.calls import Calls, OwnAdapter, names_one
from celery_pecker.kernel.connections import MAX_IDLE, Connections
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured, SchemaOutdated
from celery_pecker.kernel.refusals import MIGRATE
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox import hook
from celery_pecker.outbox.model import TABLE, Entry, Mode
from celery_pecker.outbox.sinks import Joined, Keeping, Using, Writing

T = TypeVar("T")
BATCH = 1_000
"""Rows of one statement at most."""
BATCH_BYTES = 16_000_000
"""Of the bodies of one statement; a larger message goes alone."""
CUT = "\x1e"
"""Stands between texts of JSON, which cannot have it."""


def batches(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Part the entries into those of one statement each, in their order."""
    start = size = 0
    for place, entry in enumerate(entries):
        more = len(entry.message.body)
        if place > start and (place - start == BATCH or size + more > BATCH_BYTES):
            yield entries[start:place]
            start, size = place, 0
        size += more
    yield entries[start:]


class Recorder:
    """Writes into the table of one schema; knows the databases where it is."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._seen: set[object] = set()

    def flow(
        self, entries: Sequence[Entry], copies: bool, place: object
    ) -> Flow[list[str]]:
        """Write the messages; return the ids of the tasks that will run, in order.

        For an entry with a key that is the id of the row that waits under this key, if
        there is one: then nothing is written for it. ``copies``: the messages differ in
        id, headers, properties and body only.

        Raises:
            SchemaOutdated: there is no such table in this database.
            Misconfigured: the role may not write to it.
        """
        if place not in self._seen:
            asked = {"schema": self._schema, "table": TABLE}
            rows = yield self._statement("outbox_writable", **asked)
            self._judge(rows[0])
            self._seen.add(place)
        if len(entries) == 1:
            entry = entries[0]
            if entry.key is not None:
                rows = yield self._statement(
                    "record_message_once", **_params(entry), dedupe_key=entry.key
                )
                return [str(task_id) for (task_id,) in rows]
            yield self._statement("record_message", **_params(entry))
        else:
            for some in batches(entries):
                label = "record_copies" if copies else "record_messages"
                yield self._statement(label, **_columns(some, copies=copies))
        return [entry.message.task_id for entry in entries]

    def _statement(self, label: str, /, **params: object) -> Statement:
        return Statement.of(self._schema, label, **params)

    def _judge(self, row: Sequence[object]) -> None:
        there, may_insert = row
        if not there:
            raise SchemaOutdated(
                f"schema {self._schema!r} of the connection's database has no table"
                f" pecker_outbox: {MIGRATE}"
            )
        if not may_insert:
            raise Misconfigured(
                "the role of the connection may not insert into pecker_outbox of schema"
                f" {self._schema!r}; it needs select, insert and update on it"
            )


def _params(entry: Entry) -> dict[str, object]:
    message, mode = entry.message, entry.mode
    delay = message.delay
    if delay is None and mode is not Mode.RELAY:
        delay = 0.0  # a row that a run holds has an instant from the beginning
    return {**message._asdict(), "delay": delay, "mode": int(mode)}


def _columns(entries: Sequence[Entry], *, copies: bool) -> dict[str, object]:
    """Return the same, with a list of all messages for each column that differs."""
    if copies:
        messages = [entry.message for entry in entries]
        return {
            **_params(entries[0]),
            "task_id": CUT.join(message.task_id for message in messages),
            "headers": CUT.join(message.headers for message in messages),
            "properties": CUT.join(message.properties for message in messages),
            "body": b"\x1e".join(message.body for message in messages).decode(),
        }
    rows = [_params(entry) for entry in entries]
    return {name: [row[name] for row in rows] for name in rows[0]}


class Writer:
    """Writes the messages of one outbox.

    They join the connection that was named, else the inner one of the blocks of this
    outbox, else the atomic block of Django, else they commit by themselves.
    """

    def __init__(self, app: Any, settings: Settings, alias: str) -> None:
        self._app = app
        self._limit = settings.outbox_message_bytes
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
                async_adapter_of(connection),
                lambda entries: partial(self._recorder.flow, entries, False),
                limit=self._limit,
                owner=self,
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
        return Writing(self._app, self._alone, limit=self._limit, owner=self)

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

        return Writing(self._app, write, limit=self._limit, owner=self)

    def _alone(self, entries: list[Entry], copies: bool) -> list[str]:
        flow_in = partial(self._recorder.flow, entries, copies)
        atomic = django.atomic_block(self._alias)
        if atomic is not None:
            return drive(atomic, flow_in)
        return self._calls.run(flow_in, None, several=len(entries) > 1)
