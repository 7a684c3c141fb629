"""What schedulers would have written, by hand: entries, their slots, replicas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import psycopg

ENTRY = """
with put as (
    insert into pecker_tasks (name, executed_at, epoch, missed, paused, holder)
    values (%(name)s,
        date_bin(%(period)s * interval '1 second', clock_timestamp(), 'epoch')
            - %(behind)s * interval '1 second',
        case when %(new)s then 0
            else (extract(epoch from clock_timestamp()) * 1000000)::bigint end,
        %(missed)s, %(paused)s, case when not %(new)s then %(holder)s::uuid end)
)
insert into pecker_declarations
    (name, task, schedule, delivery, declared_until, period_us, timeout_us, run)
select %(name)s, %(task)s, %(schedule)s, 'at_most_once',
    clock_timestamp() + %(declared)s * interval '1 minute',
    case when %(grid)s then (%(period)s::float8 * 1000000)::bigint end,
    %(timeout)s, %(run)s
"""
SLOTS = """
insert into pecker_history
    (name, first_due, era, holder, last_due, written_at, due_us, epoch, at_us, report)
select %(name)s, min(due), 0, %(holder)s, max(due), clock_timestamp(),
    array_agg(us order by nth, said), array_agg(us + 7 order by nth, said),
    array_agg(us + late order by nth, said), array_agg(said order by nth, said)
from (
    select nth, late, said, due, (extract(epoch from due) * 1000000)::bigint as us
    from pecker_tasks as task,
        unnest(%(late)s::bigint[], %(reports)s::smallint[])
            with ordinality as told (late, report, nth),
        lateral (
            select task.executed_at - (%(length)s - nth) * %(period)s
                * interval '1 second' as due
        ) as slot,
        lateral (
            select report as said
            union
            select 1 where report >= 10  -- it was published before it ran
        ) as reports
    where task.name = %(name)s
) as slots
group by (nth - 1) / 60
"""
REPLICA = """
insert into pecker_replicas
    (holder, host, pid, version, entries, started_at, seen_at, kind)
values (%(holder)s, %(host)s, 4711, '0.1.0', 3, clock_timestamp() - interval '1 hour',
    clock_timestamp(), %(kind)s)
"""
HOLDER = "1f7c0d52-93ab-4e08-8d61-b2a5e6c47f19"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One entry as it is to be found."""

    name: str
    task: str = "proj.tick"
    schedule: str = "<freq: 1.00 second>"
    period: float = 1.0
    grid: bool = True
    behind: float = 0.0
    missed: int = 0
    paused: bool = False
    new: bool = False
    declared: float = 5.0
    timeout: int | None = None
    run: str = "dispatch"
    holder: str = HOLDER
    late: tuple[int, ...] = ()
    """Microseconds of each slot, the oldest first."""
    reports: tuple[int, ...] = ()
    """What became of each; all published if none is said."""


def write(dsn: str, rows: Iterable[Row]) -> None:
    """The tables say so, and one scheduler is alive."""
    with psycopg.connect(dsn) as connection:
        holders = {HOLDER}
        for row in rows:
            given = {field: getattr(row, field) for field in row.__slots__}
            connection.execute(ENTRY, given)
            if row.late:
                given["reports"] = list(row.reports or [1] * len(row.late))
                given["late"] = list(row.late)
                given["length"] = len(row.late)
                connection.execute(SLOTS, given)
            holders.add(row.holder)
        for nth, holder in enumerate(sorted(holders)):
            kind = ("beat", "worker", "local")[nth % 3]
            connection.execute(
                REPLICA, {"holder": holder, "host": f"node-{nth + 1}", "kind": kind}
            )


def one(dsn: str, query: str, **params: object) -> tuple[object, ...]:
    """Return the one row that the tables answer."""
    with psycopg.connect(dsn) as connection:
        [row] = connection.execute(query.encode(), params).fetchall()
    return row
