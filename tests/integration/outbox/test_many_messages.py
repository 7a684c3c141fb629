"""`send_many`: as many calls of Celery's, in a tenth of the time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import ANY

import psycopg
import pytest
from celery import signals

from celery_pecker.kernel.errors import MessageTooLarge, NotRecorded
from celery_pecker.outbox import Outbox, bulk
from tests.integration.outbox.conftest import Desk, make_app
from tests.integration.outbox.doors import ASYNC_DOORS, DOORS

ROWS: list[Any] = [
    (1, "a"),
    [2, 'it\'s "b" \\ \x1e\n'],
    {"order": 3, "note": "ünï ☃"},
    (),
    ([1, {"deep": (1, 2)}], None, True, 1.5, float("inf")),
    ("x" * 3_000, "%s %(id)s"),
    (b"bytes", 2**70),
]
EXPIRATION = re.compile(r'"expiration": "\d+"')
OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "priority": {"priority": 5},
    "queue": {"queue": "made-up"},
    "headers": {"headers": {"x": '%s "q"'}},
    "expiry": {"expires": "2090-01-01T00:00:00+00:00"},
    "countdown": {"countdown": 60},
    "own root": {"root_id": "r", "parent_id": "p"},
    "limits": {"time_limit": 3, "soft_time_limit": 2},
    "link": {"link": "signature"},
    "stamps": {"stamped_headers": ["who"], "who": "%me"},
    "yaml": {"serializer": "yaml"},
    "pickle": {"serializer": "pickle"},
    "gzip": {"compression": "gzip"},
    "ignored": {"ignore_result": True},
}


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Count the messages that were copied."""
    made: list[str] = []
    message = bulk.Copies.message

    def copy(self: bulk.Copies, row: bulk.Row, task_id: str) -> Any:
        made.append(task_id)
        return message(self, row, task_id)

    with monkeypatch.context() as patch:
        patch.setattr(bulk.Copies, "message", copy)
        yield made


def without_ids(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with ids and instants made alike."""
    found = []
    for row in rows:
        text = {
            name: row[name].replace(row["task_id"], "ID")
            for name in ("headers", "properties")
        }
        # Celery counts it from each call on.
        text["properties"] = EXPIRATION.sub("", text["properties"])
        wait = row["due_at"] and row["due_at"] - row["created_at"]
        alike = {"id": ANY, "task_id": ANY, "due_at": wait, "created_at": ANY}
        found.append({**row, **text, **alike})
    return found


@pytest.mark.parametrize("name", OPTIONS)
def test_many_messages_are_as_celery_builds_each(
    desk: Desk, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte, in their order, whether they are copied or not."""
    note = desk.task()
    options = dict(OPTIONS[name])
    if "link" in options:
        options["link"] = note.s("done")
    with psycopg.connect(desk.dsn) as connection:
        with counted(monkeypatch) as made:
            results = desk.outbox.send_many(
                note, iter(ROWS), connection=connection, **options
            )
        for row in ROWS:
            args, kwargs = bulk.row_of(row, 1)
            desk.outbox.send(note.s(*args, **kwargs), connection=connection, **options)
    rows = desk.rows()
    assert [row["task_id"] for row in rows[: len(ROWS)]] == [r.id for r in results]
    found = without_ids(rows)
    assert found[: len(ROWS)] == found[len(ROWS) :]
    assert len(found) == 2 * len(ROWS)
    assert len(made) == (0 if name in {"yaml", "pickle", "gzip"} else len(ROWS))


@pytest.mark.parametrize("kind", DOORS)
def test_they_join_the_transaction(kind: str, desk: Desk) -> None:
    """Of each driver; more than one statement takes."""
    with DOORS[kind](desk.dsn) as door:
        results = desk.outbox.send_many(
            desk.task(), [(n,) for n in range(1_001)], connection=door.connection
        )
        assert desk.rows() == []
        door.commit()
    assert desk.ids() == [result.id for result in results]


@pytest.mark.parametrize("kind", ASYNC_DOORS)
def test_they_join_an_awaited_transaction(kind: str, desk: Desk) -> None:
    """By a call, and in a block."""
    results: list[Any] = []

    async def story() -> None:
        rows = [(number,) for number in range(20)]
        async with ASYNC_DOORS[kind](desk.dsn) as door:
            results.extend(
                await desk.outbox.asend_many(
                    desk.task(), rows, connection=door.connection
                )
            )
            async with desk.outbox.using(door.connection):
                results.extend(desk.outbox.send_many(desk.task(), rows))
            await door.commit()

    asyncio.run(story())
    assert desk.ids() == [result.id for result in results]


def test_without_a_transaction_they_commit_together(desk: Desk) -> None:
    """All or none; also awaited, and in a block."""
    note = desk.task(outbox="until_done")
    results = desk.outbox.send_many(note, [(n,) for n in range(2_500)])
    results += asyncio.run(desk.outbox.asend_many(note, [(1,), (2,)]))
    with psycopg.connect(desk.dsn) as connection, desk.outbox.using(connection):
        results += desk.outbox.send_many(note, [(1,), (2,)])
    rows = desk.rows()
    assert [row["task_id"] for row in rows] == [result.id for result in results]
    assert {row["mode"] for row in rows} == {1}
    assert len({row["created_at"] for row in rows[:1_000]}) == 1
    assert desk.outbox.send_many(note, []) == []


def test_a_bad_row_records_none_of_them(desk: Desk) -> None:
    """Whichever it is."""
    note = desk.task()
    good: list[Any] = [(n,) for n in range(1_500)]
    with psycopg.connect(desk.dsn) as connection:
        for bad, said in (
            ((object(),), "cannot be serialized"),
            (5, "row 1501 is 5"),
        ):
            with pytest.raises(NotRecorded, match=said):
                desk.outbox.send_many(note, [*good, bad], connection=connection)
        with pytest.raises(NotRecorded, match="task_id is 'x', but there are many"):
            desk.outbox.send_many(note, good, connection=connection, task_id="x")
    assert desk.rows() == []


def test_each_row_is_held_to_the_limit_and_to_the_task_s_arguments(dsn: str) -> None:
    """As one that is sent alone."""
    app = make_app(dsn, pecker_outbox_message_bytes=3_000)
    desk = Desk(dsn, app, Outbox(app))
    decorate: Any = app.task(name="strict", shared=False)

    def strict(order: object) -> None: ...

    task = decorate(strict)
    with pytest.raises(MessageTooLarge):
        desk.outbox.send_many(task, [(1,), ("x" * 3_000,)])
    with pytest.raises(TypeError, match="strict"):
        desk.outbox.send_many(task, [(1,), (1, 2)])
    assert desk.rows() == []


def test_who_watches_sees_each_message(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signals have receivers, or routes are asked: Celery builds each."""
    seen = []

    def before(sender: str, headers: Any, **_: object) -> None:
        seen.append(sender)
        headers["number"] = len(seen)

    signals.before_task_publish.connect(before)
    try:
        with counted(monkeypatch) as made:
            desk.outbox.send_many(desk.task(), [(1,), (2,), (3,)])
    finally:
        signals.before_task_publish.disconnect(before)
    headers = [json.loads(row["headers"]) for row in desk.rows()]
    assert [header["number"] for header in headers] == [1, 2, 3]
    assert (seen, made) == (["note"] * 3, [])


def test_a_route_that_looks_at_arguments_is_asked_for_each(dsn: str) -> None:
    """By tenant, for one."""

    def route(name: str, args: Any, *_: object, **__: object) -> dict[str, str]:
        return {"queue": f"{name}-{args[0]}"}

    app = make_app(dsn, task_routes=[route])
    desk = Desk(dsn, app, Outbox(app))
    desk.outbox.send_many(desk.task(), [(1,), (2,)])
    assert [row["routing_key"] for row in desk.rows()] == ["note-1", "note-2"]
    desk.outbox.close()
