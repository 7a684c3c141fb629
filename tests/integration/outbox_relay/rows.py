"""Rows of an outbox, written without the code that records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg

from celery_pecker.kernel.clock import new_id

INSERT = """
insert into pecker_outbox (
    task, task_id, exchange, routing_key, content_type, content_encoding,
    headers, properties, body, created_at, due_at)
select 'app.work', task_id, '', %(queue)s, 'application/json', 'utf-8',
       replace(%(headers)s, '*', task_id), replace(%(properties)s, '*', task_id),
       %(body)s, now(), now() + %(delay)s * interval '1 second'
from unnest(%(ids)s::text[]) as task_id
order by task_id
returning id
"""


def record(
    connection: psycopg.Connection[Any],
    count: int,
    *,
    queue: str = "celery",
    delay: float | None = None,
    body: bytes = b'[[1], {}, {"callbacks": null, "errbacks": null, "chain": null,'
    b' "chord": null}]',
    task_ids: Sequence[str] | None = None,
) -> list[int]:
    """Record so many messages; return their ids."""
    headers: dict[str, object] = {
        "lang": "py",
        "task": "app.work",
        "id": "*",
        "root_id": "*",
    }
    headers |= {"parent_id": None, "group": None, "eta": None, "expires": None}
    headers |= {"retries": 0, "timelimit": [None, None], "argsrepr": "(1,)"}
    headers |= {"kwargsrepr": "{}", "origin": "test", "ignore_result": False}
    properties: dict[str, object] = {
        "correlation_id": "*",
        "reply_to": "r",
        "delivery_mode": 2,
    }
    properties |= {"delivery_info": {}, "priority": 0}
    rows = connection.execute(
        INSERT,
        {
            "queue": queue,
            "headers": json.dumps(headers),
            "properties": json.dumps(properties),
            "body": body,
            "delay": delay,
            "ids": task_ids or [str(new_id()) for _ in range(count)],
        },
    ).fetchall()
    return [id_ for (id_,) in rows]


def column(connection: psycopg.Connection[Any], query: str) -> list[Any]:
    """Return the first column of a query of a test's own."""
    return [row[0] for row in connection.execute(query.encode()).fetchall()]
