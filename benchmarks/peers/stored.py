"""Stored schedules of ours: rows of ``pecker_schedules``, written by the API.

The first is set by the API; of so many that are alike the others are its copies, as
nobody wants to wait for 100,000 edits before each trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import psycopg
from celery import Celery
from psycopg import sql

from benchmarks.peers.environment import TASK, entry, every, given
from celery_pecker.schedules import Schedules

_COLUMNS = """
select table_name, string_agg(quote_ident(column_name), ', ' order by ordinal_position)
from information_schema.columns
where table_schema = %s and column_name not in ('name', 'args')
    and table_name in ('pecker_schedules', 'pecker_tasks', 'pecker_declarations')
group by table_name
"""
_COPY = """
insert into {table} (name, {args} {columns})
select format('entry-%%s', lpad(nth::text, 5, '0')), {numbered} {columns}
from {table}, generate_series(1, %(last)s) as nth
where name = %(first)s
"""


@cache
def of(app: Celery) -> Schedules:
    """Return the schedules of the app: it keeps its connections."""
    return Schedules(app)


def configure(_app: Celery) -> None:
    """Nothing: the entries are where the app's tables are."""


def load(app: Celery, entries: int) -> None:
    """The entries are in the tables."""
    of(app).set(entry(0), task=TASK, schedule=every(), args=[0])
    with psycopg.connect(given("DSN"), autocommit=True) as connection:
        for table, columns in connection.execute(
            _COLUMNS, [given("SCHEMA")]
        ).fetchall():
            numbered = table == "pecker_schedules"
            connection.execute(
                sql.SQL(_COPY).format(
                    table=sql.Identifier(given("SCHEMA"), table),
                    columns=sql.SQL(columns),
                    args=sql.SQL("args," if numbered else ""),
                    numbered=sql.SQL("jsonb_build_array(nth)," if numbered else ""),
                ),
                {"last": entries - 1, "first": entry(0)},
            )
            connection.execute(
                sql.SQL("analyze {}").format(sql.Identifier(given("SCHEMA"), table))
            )


def put(app: Celery, number: int, period: float) -> None:
    """An entry of that period is stored."""
    of(app).set(entry(number), task=TASK, schedule=period, args=[number])


def remove(app: Celery, number: int) -> None:
    """The entry is gone."""
    of(app).remove(entry(number))


def edit(app: Celery, number: int, edition: int) -> None:
    """The entry's task is called with another argument from now on."""
    of(app).set(
        entry(number),
        task=TASK,
        schedule=every(),
        args=[number],
        kwargs={"edition": edition},
    )


def edit_many(app: Celery, numbers: Sequence[int], edition: int) -> None:
    """The same for many entries, in one transaction."""
    of(app).set_many(
        {
            "name": entry(number),
            "task": TASK,
            "schedule": every(),
            "args": [number],
            "kwargs": {"edition": edition},
        }
        for number in numbers
    )
