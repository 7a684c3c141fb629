"""What processes under chaos write down themselves, beside the ledger."""

from __future__ import annotations

from typing import Any

import psycopg

TABLES = """
create table if not exists chaos_called (
    task_id text primary key, way text, items int,
    at timestamptz default clock_timestamp(), returned timestamptz
);
create table if not exists chaos_posts (
    token bigserial primary key, task_id text, pid int, pgid int,
    began timestamptz default clock_timestamp(), ended timestamptz
);
create table if not exists chaos_next (
    id bigserial primary key, token bigint, task_id text
);
create table if not exists chaos_notes (
    id bigserial primary key, task_id text, percent float
)
"""
BAD = 23
"""Each so-manieth item fails."""
EVERY = 0.25
"""After which part of the items progress is told."""


def next_queue(queue: str) -> str:
    """Return the queue on which what follows a job lies."""
    return f"{queue}-next"


def ask(dsn: str, query: str, *given: object) -> list[Any]:
    """Return the rows of a question, or of what it returns."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        done = connection.execute(query.encode(), given)
        return done.fetchall() if done.description else []
