"""Stored schedules, written by SQL as an edit writes them; and replicas that follow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from celery import Celery

from celery_pecker.schedules.engine.stored_sync import StoredSync
from celery_pecker.schedules.replica.definitions import Definitions
from celery_pecker.testing.manual import START, ManualClock, ManualPecker

WRITE = """
with held as (
    insert into pecker_tasks as task (name, executed_at, version)
    values (%(name)s, %(now)s, 1)
    on conflict (name) do update
    set version = coalesce(
            (select version + 1 from pecker_schedules where name = %(name)s), 1),
        executed_at = case when %(anchor)s
            then greatest(task.executed_at, %(now)s) else task.executed_at end,
        holder = case when %(anchor)s then null else task.holder end
    returning version
),
declared as (
    insert into pecker_declarations
        (name, task, schedule, delivery, run, stored, declared_until)
    values (%(name)s, %(task)s, 'as stored', 'at_most_once', %(run)s, true,
            case when %(removed)s then %(now)s else 'infinity' end)
    on conflict (name) do update
    set stored = true, declared_until = excluded.declared_until
)
insert into pecker_schedules
    (name, task, args, options, schedule, policies, run, starts_at, ends_at, once,
     once_at, version, removed_at, created_at, changed_at, changed_by)
select %(name)s, %(task)s, %(args)s, %(options)s, %(schedule)s, %(policies)s,
       %(run)s, %(start)s, %(end)s, %(once_at)s::timestamptz is not null, %(once_at)s,
       version, case when %(removed)s then %(now)s::timestamptz end,
       %(now)s, %(now)s, 'test'
from held
on conflict (name) do update
set task = excluded.task, args = excluded.args, options = excluded.options,
    schedule = excluded.schedule, policies = excluded.policies, run = excluded.run,
    starts_at = excluded.starts_at, ends_at = excluded.ends_at, once = excluded.once,
    once_at = excluded.once_at, version = excluded.version,
    removed_at = excluded.removed_at, changed_at = excluded.changed_at,
    edit = pg_current_xact_id()
"""


def edit(  # noqa: PLR0913  # the columns
    connection: psycopg.Connection,
    name: str,
    schedule: object,
    *,
    clock: ManualClock | None = None,
    task: str = "proj.tick",
    args: object = (),
    options: object = None,
    run: str = "dispatch",
    start: object = None,
    end: object = None,
    once_at: object = None,
    anchor: bool = True,
    removed: bool = False,
    **policies: object,
) -> None:
    """Write a stored schedule in the transaction of the connection."""
    connection.execute(
        WRITE,
        {
            "name": name,
            "now": START if clock is None else clock.now(),
            "task": task,
            "args": json.dumps(args),
            "options": json.dumps(options or {}),
            "schedule": json.dumps(schedule),
            "policies": json.dumps(policies),
            "run": run,
            "start": start,
            "end": end,
            "once_at": once_at,
            "anchor": anchor,
            "removed": removed,
        },
    )


def store(dsn: str, name: str, schedule: object, **more: Any) -> None:
    """Write a stored schedule and commit."""
    with psycopg.connect(dsn) as connection:
        edit(connection, name, schedule, **more)


def following_of(pecker: ManualPecker) -> StoredSync:
    """Return what follows stored schedules in a replica."""
    assert pecker.stored is not None
    return pecker.stored


class Destination:
    """Keeps what messages were built of."""

    def __init__(self) -> None:
        self.built: dict[str, Any] = {}
        self.forgotten: list[str] = []
        self.wrong: dict[str, str] = {}
        """By entry: why its message cannot be built."""

    def prepare(self, entry: Any) -> str | None:
        """Keep the entry."""
        self.built[entry.name] = entry
        return self.wrong.get(entry.name)

    def forget(self, name: str) -> None:
        """Forget it."""
        self.built.pop(name, None)
        self.forgotten.append(name)


@contextmanager
def follower(
    dsn: str,
    clock: ManualClock,
    schedule: dict[str, object] | None = None,
    allowed_tasks: list[str] | None = None,
    **more: Any,
) -> Iterator[tuple[ManualPecker, Destination]]:
    """Give a replica that follows stored schedules, and what it built."""
    app = Celery("test", set_as_current=False)
    app.conf.pecker_allowed_tasks = allowed_tasks
    app.conf.beat_schedule = {
        name: given if isinstance(given, dict) else {"task": "t", "schedule": given}
        for name, given in (schedule or {}).items()
    }
    destination: Any = Destination()
    with ManualPecker(
        app, dsn=dsn, clock=clock, definitions=Definitions(app, destination), **more
    ) as pecker:
        yield pecker, destination
