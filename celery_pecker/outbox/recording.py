"""Write messages into the table, in whatever transaction there is.

The flow is written once, for what blocks and for what is awaited: it yields statements
and is sent their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from celery_pecker.kernel.adapters.adapter import Flow, Statement
from celery_pecker.kernel.errors import Misconfigured, SchemaOutdated
from celery_pecker.kernel.refusals import MIGRATE
from celery_pecker.kernel.rendering import rendered
from celery_pecker.kernel.sql import OURS
from celery_pecker.outbox.model import TABLE, Entry, Mode

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
            rows = yield self._statement("outbox_writable", asked)
            self._judge(rows[0])
            self._seen.add(place)
        if len(entries) == 1:
            entry = entries[0]
            if entry.key is not None:
                params = {**_params(entry), "dedupe_key": entry.key}
                rows = yield self._statement("record_message_once", params)
                return [str(task_id) for (task_id,) in rows]
            yield self._statement("record_message", _params(entry))
        else:
            for some in batches(entries):
                label = "record_copies" if copies else "record_messages"
                yield self._statement(label, _columns(some, copies=copies))
        return [entry.message.task_id for entry in entries]

    def _statement(self, label: str, params: Mapping[str, object]) -> Statement:
        return Statement(label, rendered(OURS, self._schema)[label], params)

    def _judge(self, row: Sequence[object]) -> None:
        there, may_insert = row
        if not there:
            message = (
                f"schema {self._schema!r} of the connection's database has no table"
                f" pecker_outbox: {MIGRATE}"
            )
            raise SchemaOutdated(message)
        if not may_insert:
            message = (
                "the role of the connection may not insert into pecker_outbox of schema"
                f" {self._schema!r}; it needs select, insert and update on it"
            )
            raise Misconfigured(message)


def _params(entry: Entry) -> dict[str, object]:
    message, mode = entry.message, entry.mode
    delay = message.delay
    if delay is None and mode is not Mode.RELAY:
        delay = 0.0  # a row that a run holds has an instant from the beginning
    return {
        "now": None,
        "delay": delay,
        "mode": int(mode),
        "priority": message.priority,
        "task": message.task,
        "task_id": message.task_id,
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "content_type": message.content_type,
        "content_encoding": message.content_encoding,
        "declare": message.declare,
        "headers": message.headers,
        "properties": message.properties,
        "body": message.body,
    }


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
    columns: dict[str, object] = {
        name: [row[name] for row in rows] for name in rows[0] if name != "now"
    }
    return {"now": None, **columns}
