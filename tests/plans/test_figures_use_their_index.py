"""A chart reads its own time, and upkeep reads what is due, of 30 days of figures."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.figures import KEPT, STEPS
from celery_pecker.kernel.sql import statements
from tests.plans.test_claims_use_their_index import explain

FILL = """
insert into pecker_figures (step, part, at, holder, figures)
select tier.step, part, date_bin('1 hour', now(), 'epoch') - n * tier.step
    * interval '1 minute', holder::text::uuid, '{"entry x": "l4:2 o1:1"}'
from (values (1, 360, 2), (15, 768, 1), (60, 720, 1)) as tier (step, rows, holders),
    generate_series(0, 15) as part,
    generate_series(1, tier.rows) as n,
    lateral (
        select lpad(h::text, 32, '0') from generate_series(1, tier.holders) as h
    ) as one (holder);
analyze;
"""


@pytest.fixture(scope="module")
def stored(postgres_server: object) -> Iterator[psycopg.Connection[Any]]:
    """Give the figures of 30 days, all of which are folded."""
    with (
        postgres_server.fresh(migrated=True) as dsn,  # type: ignore[attr-defined]
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        connection.execute(FILL)
        yield connection


def chart(step: int, hours: float) -> dict[str, Any]:
    """Return what a chart of so many hours asks for."""
    now = SYSTEM.now()
    since = now - timedelta(hours=hours)
    between = {"step": step, "wide": step, "since": since, "until": now}
    return between | {"part": 3, "subject": "entry x"}


@pytest.mark.parametrize(
    ("label", "params", "most"),
    [
        ("read_figures", chart(1, 1), 2 * 60),
        ("read_figures", chart(15, 24), 4 * 24 + 2 * 60),
        ("read_figures", chart(60, 720), 720 + 4 * 8 + 2 * 60),
        (
            "read_unfolded_figures",
            {"now": None, "step": 1, "into": 15, "after": 10, "holder": None},
            500,
        ),
        (
            "purge_figures",
            {"now": None, "steps": [*STEPS], "intos": [*STEPS[1:], None]}
            | {"kept": [KEPT[step] for step in STEPS]},
            2_000,
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else str(one)[:12],
)
def test_old_figures_are_not_walked(
    stored: psycopg.Connection[Any], label: str, params: dict[str, Any], most: int
) -> None:
    """No part of the plan reads more rows than the time that is asked for has."""
    text = statements()[label]
    asked = {key: value for key, value in params.items() if f"%({key})s" in text}
    plan = explain(stored, label, asked, "force_custom_plan")
    read = [int(n) for n in re.findall(r"rows=(\d+)", plan)]
    removed = [int(n) for n in re.findall(r"Rows Removed by Filter: (\d+)", plan)]
    assert max(read + removed) <= most, plan
