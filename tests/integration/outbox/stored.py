"""Rows in an outbox, written as a sender writes them, and what became of them."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from celery_pecker.kernel.clock import new_tag
from celery_pecker.outbox.runs.header import RowRef

INSERT = """
insert into pecker_outbox (due_at, mode, task, task_id, exchange, routing_key,
    content_type, content_encoding, headers, properties, body, dedupe_key, created_at)
values (
    %(due_at)s, %(mode)s, %(task)s, %(task_id)s, '', %(queue)s, 'application/json',
    'utf-8', %(headers)s, '{}', %(body)s, %(key)s, clock_timestamp())
returning id
"""


class Table:
    """The outbox of one database."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def execute(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        """Run any statement, committed."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), params or None)
            return cursor.fetchall() if cursor.description else []

    def add(self, task: str, *args: object, mode: int = 1, **fields: Any) -> int:
        """Write a row; return its id."""
        task_id = fields.pop("task_id", None) or new_tag()
        headers = {"task": task, "id": task_id, "lang": "py", "root_id": task_id}
        values = {
            "due_at": None,
            "queue": "celery",
            "key": None,
            "mode": mode,
            "task": task,
            "task_id": task_id,
            "headers": json.dumps(headers),
            "body": json.dumps([args, {}, {}]).encode(),
            **fields,
        }
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            row = connection.execute(INSERT.encode(), values).fetchone()
        assert row is not None
        return int(row[0])

    def row(self, number: int) -> dict[str, Any]:
        """Return a row by its columns; empty if it has gone."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(
                "select * from pecker_outbox where id = %s", [number]
            )
            found = cursor.fetchone()
            names = [column.name for column in cursor.description or ()]
        return dict(zip(names, found, strict=True)) if found else {}

    def ref(self, number: int, epoch: int = 0) -> RowRef:
        """Return what a message says of a row, also of one that has gone."""
        task_id = self.row(number).get("task_id", "")
        return RowRef(number, epoch, "default", task_id)

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.execute("select count(*) from pecker_outbox")[0][0])

    @property
    def done(self) -> list[tuple[Any, ...]]:
        """The log: id, attempt, emergency, in the order of ends."""
        return self.execute(
            "select id, attempt, emergency from pecker_outbox_done order by number"
        )

    def release(self) -> None:
        """Let what is held be due now: its time passed."""
        self.execute(
            "update pecker_outbox set due_at = clock_timestamp(),"
            " held_until = clock_timestamp() where parked_at is null"
        )
