"""Tables as they are after a while: so many entries, each with a page of history."""

from __future__ import annotations

import psycopg
from psycopg import sql

from celery_pecker.kernel.migrations import migrate

SLOTS = 60
"""Of each entry: what a closed row of the history has."""
HOLDER = "11111111-1111-4111-8111-111111111111"
_FILL = """
insert into {schema}.pecker_tasks (name, executed_at, epoch, missed, holder)
select format('entry-%%s', lpad(nth::text, 5, '0')), date_trunc('second', now()),
    (extract(epoch from now()) * 1000000)::bigint, nth %% 7, %(holder)s
from generate_series(0, %(entries)s - 1) as nth;

insert into {schema}.pecker_declarations
    (name, task, schedule, delivery, declared_until, period_us)
select name, 'bench.tick', '<freq: 1.00 second>', 'at_most_once',
    now() + interval '1 hour', 1000000
from {schema}.pecker_tasks;

insert into {schema}.pecker_replicas
    (holder, host, pid, version, entries, started_at, seen_at, kind)
values (%(holder)s, 'node-1', 4711, '1', %(entries)s, now(), now(), 'beat');

insert into {schema}.pecker_history
    (name, first_due, era, holder, last_due, written_at, due_us, epoch, at_us, report)
select task.name, task.executed_at - (%(slots)s - 1) * interval '1 second', 0,
    %(holder)s, task.executed_at, now(),
    array_agg(slot.us order by slot.us), array_agg(slot.us + 7 order by slot.us),
    array_agg(slot.us + 5000 + (random() * 40000)::bigint order by slot.us),
    array_agg(1::smallint order by slot.us)
from {schema}.pecker_tasks as task,
    lateral (
        select (extract(epoch from task.executed_at) * 1000000)::bigint
            - nth * 1000000 as us
        from generate_series(0, %(slots)s - 1) as nth
    ) as slot
group by task.name, task.executed_at;
"""


def fill(dsn: str, schema: str, entries: int) -> None:
    """The tables are there, full and analysed."""
    migrate(dsn, schema=schema)
    named = sql.Identifier(schema)
    given = {"entries": entries, "slots": SLOTS, "holder": HOLDER}
    with psycopg.connect(dsn, autocommit=True) as connection:
        for part in _FILL.split(";\n"):
            if part.strip():
                connection.execute(sql.SQL(part).format(schema=named), given)
        for table in ("tasks", "declarations", "replicas", "history"):
            named = sql.Identifier(schema, f"pecker_{table}")
            connection.execute(sql.SQL("analyze {}").format(named))


def drop(dsn: str, schema: str) -> None:
    """Nothing is left."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        named = sql.Identifier(schema)
        connection.execute(sql.SQL("drop schema if exists {} cascade").format(named))
