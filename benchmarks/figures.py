"""What the figures of the history cost: python -m benchmarks.figures.

1,000 entries that run each second, as a scheduler and a worker write them for hours,
folded and filled up to 30 days: bytes, and the time of a write, a fold and a chart.
"""

from __future__ import annotations

import json
import random
import statistics
import uuid
from collections.abc import Callable
from datetime import timedelta

import psycopg
from psycopg import sql

from celery_pecker.kernel.clock import SYSTEM, monotonic, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.figure_tables import FiguresWriter
from celery_pecker.kernel.figures import (
    KEPT,
    MINUTE_US,
    STEPS,
    Figures,
    FiguresRow,
    bucket,
)
from celery_pecker.kernel.migrations import migrate
from celery_pecker.surfaces.views.history import panels, past
from celery_pecker.testing import EmbeddedPostgres

ENTRIES = 1_000
HOURS = 7
"""Written minute by minute: as long as minutes are kept, and what is folded of it."""
CHARTS = (5, 360, 1_440, 10_080, 43_200)
"""Minutes."""
DAY = 1_440
NAME = "reports.of-tenant-{:04d}"
FILL = """
insert into pecker_figures
select step, part, at - n * step * interval '1 minute', holder, figures
from pecker_figures, generate_series(1, %(count)s) as n
where step = %(step)s
    and at = (select min(at) from pecker_figures where step = %(step)s)
on conflict do nothing
"""
SIZE = "select pg_total_relation_size('pecker_figures') / 1e6"
_chance = random.Random(29)


def fill(dsn: str, schema: str, named: Callable[[int], str]) -> None:
    """Fill a schema with the figures of 30 days of ENTRIES entries, folded."""
    rows = minute("lwr", 0, named)
    text = """
        insert into {}.pecker_figures
        select step, part, date_bin(step * interval '1 minute', now(), 'epoch')
            - n * step * interval '1 minute', gen_random_uuid(), figures::jsonb
        from unnest(%(parts)s::smallint[], %(figures)s::text[]) as row (part, figures),
            unnest(%(steps)s::smallint[], %(kept)s::integer[]) as tier (step, kept),
            generate_series(1, kept / step) as n"""
    given = {
        "parts": [row.part for row in rows],
        "figures": [json.dumps(row.figures) for row in rows],
        "steps": [*STEPS],
        "kept": [KEPT[step] for step in STEPS],
    }
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL(text).format(sql.Identifier(schema)), given)
        named_table = sql.Identifier(schema, "pecker_figures")
        connection.execute(sql.SQL("vacuum analyze {}").format(named_table))


def minute(
    kinds: str, at_us: int, named: Callable[[int], str] = NAME.format
) -> list[FiguresRow]:
    """Return what a process counts in a minute in which each entry ran 60 times."""
    figures = Figures()
    for number in range(ENTRIES):
        subject = "entry " + named(number)
        for kind in kinds * 60:
            us = int(_chance.lognormvariate(10.0, 0.5))
            figures.add(subject, at_us, f"{kind}{bucket(us)}")
        figures.add(subject, at_us, "o1" if kinds == "l" else "o11", 60)
    return figures.ready(0.0, leaving=True)


def timed(work: Callable[[], object]) -> float:
    """Return the milliseconds that it takes."""
    began = monotonic()
    work()
    return (monotonic() - began) * 1e3


def show(what: str, took: list[float]) -> None:
    """Print what took how long."""
    p95 = statistics.quantiles(took, n=20)[-1]
    print(f"{what}: median {statistics.median(took):.1f} ms, p95 {p95:.1f} ms")


def main() -> None:
    """Print the figures."""
    with EmbeddedPostgres() as server, psycopg.connect(server.dsn) as connection:
        migrate(server.dsn, schema="public")
        connection.autocommit = True
        database = Database(server.dsn, schema="public", timeout=30.0, role="bench")
        measure(database, connection)
        database.close()


def measure(database: Database, connection: psycopg.Connection) -> None:
    """Fill the table and read it."""

    def size() -> float:
        [(megabytes,)] = connection.execute(SIZE).fetchall()
        return float(megabytes)

    now = SYSTEM.now().replace(second=0, microsecond=0)
    samples = [(uuid.uuid4(), minute(kinds, to_us(now))) for kinds in ("l", "wr")]
    writes = []
    for back in range(HOURS * 60, 0, -1):
        at = now - timedelta(minutes=back)
        for holder, rows in samples:
            given = {
                "parts": [row.part for row in rows],
                "ats": [at] * len(rows),
                "figures": [json.dumps(row.figures) for row in rows],
            }
            writes.append(
                timed(
                    lambda at=at, holder=holder, given=given: database.change(  # type: ignore[misc]
                        "write_figures", now=at, holder=holder, **given
                    )
                )
            )
    show("a write", writes)
    print(f"minutes of {KEPT[1] // 60} hours: {size() * KEPT[1] / 60 / HOURS:.1f} MB")
    writer = FiguresWriter(
        Figures(), database, uuid.uuid4(), clock=SYSTEM, folds=lambda: True
    )
    folds: list[float] = []
    while (took := timed(lambda: folded.append(writer.fold()))) and folded[-1]:
        folds.append(took)
    show("a fold of a part", folds)
    for step in STEPS[1:]:
        before = size()
        connection.execute(FILL, {"step": step, "count": KEPT[step] // step})
        days = KEPT[step] / DAY
        grown = size() - before
        print(f"{step} minutes of {days:g} days: {grown:.1f} MB")
    connection.execute("vacuum analyze pecker_figures")
    print(f"all: {size():.1f} MB, {size() * DAY / KEPT[60]:.2f} MB a day")
    for length in CHARTS:

        def chart(length_us: int = length * MINUTE_US) -> object:
            name = NAME.format(_chance.randrange(ENTRIES))
            return panels(past(database, "entry", name, length_us=length_us))

        show(f"a chart of {length:,} minutes", [timed(chart) for _ in range(200)])


folded: list[bool] = []

if __name__ == "__main__":
    main()
