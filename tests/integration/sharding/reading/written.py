"""Jobs whose rows a test writes as it likes, whoever would have written them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from celery_sharding.codec import encode
from celery_sharding.model import Options
from celery_sharding.policies import as_json


class Written:
    """Rows of jobs, by the table; what is not said has the value of a calm job."""

    def __init__(self, dsn: str, at: datetime) -> None:
        self.at = at
        self._connection = psycopg.connect(dsn, autocommit=True)

    def close(self) -> None:
        """The connection is gone."""
        self._connection.close()

    def ago(self, seconds: float) -> datetime:
        """Return an instant so long before the test's own."""
        return self.at - timedelta(seconds=seconds)

    def job(self, task_id: str, *, options: Options | None = None, **given: Any) -> int:
        """Write a job that shards, and return its number.

        One of that id is gone: of the first try of a test that is tried again.
        """
        gone = "delete from pecker_jobs where task_id = %s"
        self._connection.execute(gone, [task_id])
        given = {
            "task_id": task_id,
            "task": "proj.import_rows",
            "stage": "sharding",
            "concurrency": 4,
            "options": Jsonb(as_json(options or Options())),
            "call": encode([[], {}]),
            "continuation": Jsonb({}),
            "submitted_at": self.ago(60),
            "planned_at": self.ago(59),
            **given,
        }
        if given.get("error") is not None:
            given["error"] = Jsonb(given["error"])
        return int(self.row("jobs", "job", **given))

    def row(self, table: str, told: str = "job", **given: Any) -> Any:
        """Write a row; return a column of it."""
        statement = sql.SQL("insert into {} ({}) values ({}) returning {}").format(
            sql.Identifier(f"pecker_{table}"),
            sql.SQL(", ").join(map(sql.Identifier, given)),
            sql.SQL(", ").join(map(sql.Placeholder, given)),
            sql.Identifier(told),
        )
        found = self._connection.execute(statement, given).fetchone()
        assert found is not None
        return found[0]

    def layer(self, job: int, layer: int, **given: Any) -> None:
        """Write a layer that began half a minute ago."""
        known = {"total": 100, "shards": 1, "open": 1, "started_at": self.ago(50)}
        self.row("layers", job=job, layer=layer, **{**known, **given})

    def shard(self, job: int, shard: int, layer: int = 0, **given: Any) -> None:
        """Write a shard of ten items that waits."""
        self.row(
            "shards",
            job=job,
            shard=shard,
            layer=layer,
            **{"origin": shard, "hi": 10, **given},
        )

    def hold(self, job: int, ticket: int = 1, **given: Any) -> None:
        """Write a ticket that is held."""
        held = {
            "seq": 7,
            "state": "held",
            "holder": "w1:42:a",
            "hostname": "w1",
            "leased_until": self.ago(-15),
        }
        self.row("tickets", job=job, ticket=ticket, **{**held, **given})

    def error(self, job: int, origin: int, place: int, **given: Any) -> None:
        """Write a failed item."""
        known = {
            "shard": origin,
            "layer": 0,
            "code": 302,
            "attempt": 1,
            "type": "ValueError",
            "message": f"no good: {origin}/{place}",
            "item": encode({"row": place}),
            "worker": "w1",
            "at": self.at,
        }
        self.row(
            "item_errors", job=job, origin=origin, place=place, **{**known, **given}
        )

    def result(self, job: int, shard: int, at: int, value: Any) -> None:
        """Write what a shard came to."""
        self.row("results", job=job, shard=shard, at=at, body=encode(value))

    def copy(self, table: str, columns: str, rows: Iterator[Sequence[Any]]) -> None:
        """Write many rows at once."""
        statement = f"copy pecker_{table} ({columns}) from stdin"
        with self._connection.cursor().copy(statement.encode()) as copy:
            for row in rows:
                copy.write_row(row)
