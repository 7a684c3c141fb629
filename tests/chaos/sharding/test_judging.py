"""The judge of the chaos sees what it is there for: each wrong thing by its name."""

from __future__ import annotations

from typing import Any

import pytest

from celery_sharding.codec import encode
from tests.chaos.sharding.judging import Verdict, judge
from tests.chaos.sharding.tables import TABLES, ask

ITEMS = 30
GOOD = [*range(22), *range(23, ITEMS)]
FAILED = [[22, 302]]
JOB = """
insert into pecker_jobs
    (task_id, task, stage, outcome, concurrency, options, call, continuation,
     submitted_at, value)
values (%s, 'chaos', %s, %s, 1, '{}', '', '{}', now(), %s)
"""


@pytest.fixture
def tables(dsn: str) -> str:
    """Give a database with the tables of the chaos."""
    ask(dsn, TABLES)
    return dsn


def ended(  # noqa: PLR0913
    dsn: str,
    *,
    stage: str = "ended",
    outcome: str = "succeeded",
    results: list[int] = GOOD,
    failed: list[Any] = FAILED,
    went_on: tuple[int, ...] = (1,),
    pids: tuple[int, ...] = (7,),
) -> None:
    """A job has ended so; its first Post's value is the one that counts."""
    ask(dsn, "insert into chaos_called values ('a', 'linked', %s, now(), now())", ITEMS)
    value = {"token": 1, "results": results, "failed": failed}
    ask(dsn, JOB, "a", stage, outcome, encode(value))
    for pid in pids:
        ask(
            dsn,
            "insert into chaos_posts (task_id, pid, pgid) values ('a', %s, 99)",
            pid,
        )
    for token in went_on:
        ask(dsn, "insert into chaos_next (token, task_id) values (%s, 'a')", token)


def verdict(dsn: str, *dead: int) -> Verdict:
    """Return the verdict where these processes were killed."""
    return judge(dsn, groups=set(), pids=set(dead))


def test_a_job_that_ended_well_is_nothing_wrong(tables: str) -> None:
    """Its bad item is reported, its next step was told once."""
    ended(tables)
    told = verdict(tables)
    assert not told.wrong
    assert (told.jobs, told.items, told.begun_posts) == (1, ITEMS, 1)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("stuck", {"stage": "sharding"}),
        ("failed", {"outcome": "failed"}),
        ("failed", {"failed": [[22, 203]]}),
        ("failed", {"results": GOOD[1:], "failed": [*FAILED, [0, 302]]}),
        ("lost", {"results": GOOD[1:]}),
        ("lost", {"failed": []}),
        ("doubled", {"results": [*GOOD, 3]}),
        ("doubled", {"failed": FAILED * 2}),
        ("not_continued", {"went_on": ()}),
        ("two_posts", {"went_on": (1, 2)}),
        ("two_posts", {"went_on": (2,)}),
        ("two_posts", {"pids": (7, 8)}),
    ],
)
def test_what_is_wrong_is_named(
    tables: str, name: str, given: dict[str, object]
) -> None:
    """Nothing else is, besides."""
    ended(tables, **given)  # type: ignore[arg-type]
    assert [*verdict(tables).wrong] == [name]


def test_a_second_post_is_right_where_the_first_ones_process_is_dead(
    tables: str,
) -> None:
    """The value of the one that lives is the one that counts."""
    ended(tables, pids=(7, 8))
    assert not verdict(tables, 8).wrong


def test_what_followed_twice_with_the_same_value_is_counted_apart(tables: str) -> None:
    """Its process died before it had written that it told."""
    ended(tables, went_on=(1, 1))
    told = verdict(tables)
    assert not told.wrong
    assert told.continued_twice == 1


def test_a_call_that_returned_and_is_not_in_the_ledger_is_wrong(tables: str) -> None:
    """One whose caller died in it is not."""
    ask(tables, "insert into chaos_called values ('a', 'linked', 9, now(), now())")
    ask(tables, "insert into chaos_called values ('b', 'linked', 9, now(), null)")
    assert verdict(tables).wrong == {"unknown": ["a"]}


def test_progress_that_is_told_too_often_is_wrong(tables: str) -> None:
    """Four quarters are four notifications, each of its own."""
    ended(tables)
    for percent in (25.0, 50.0, 75.0, 100.0, 100.0):
        ask(
            tables,
            "insert into chaos_notes (task_id, percent) values ('a', %s)",
            percent,
        )
    assert [*verdict(tables).wrong] == ["told_twice"]
