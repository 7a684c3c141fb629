"""How a job stands, and how fast it goes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from celery_sharding.model import Code, Outcome, Stage
from celery_sharding.overview import MEANINGS, JobPace, State, verdict
from tests.unit.sharding.overview.jobs import NOW, job_row

ENDED = {"stage": Stage.ENDED}


@pytest.mark.parametrize(
    ("given", "state", "why"),
    [
        ({}, State.RUNNING, "layer 1 of 2: 2 of at most 4 shards run"),
        ({"held": 0}, State.WAITING, "wait for a worker that is free"),
        ({"held": 0, "executors": 0}, State.STARVED, "k_sc_ec_300006: no live worker"),
        ({"paused": True}, State.PAUSED, "it is paused"),
        ({"stage": Stage.SUBMITTED}, State.SUBMITTED, "no worker has begun it"),
        (
            {"stage": Stage.SUBMITTED, "executors": 0},
            State.SUBMITTED,
            "k_sc_ec_300006",
        ),
        ({"stage": Stage.PLANNING, "attempts": 1}, State.PLANNING, "PreProcess gives"),
        (
            {"stage": Stage.POSTING, "attempts": 2},
            State.POSTING,
            "Post runs, begun 2 times: processes died",
        ),
        ({"stage": Stage.DELIVERING}, State.DELIVERING, "reported to Celery"),
        (
            {**ENDED, "outcome": Outcome.SUCCEEDED, "done": 990, "failed": 10},
            State.PARTLY,
            "990 of 1,000 items done, 10 items failed",
        ),
        (
            {**ENDED, "outcome": Outcome.SUCCEEDED, "done": 1_000, "failed": 0},
            State.SUCCEEDED,
            "1,000 of 1,000 items done",
        ),
        (
            {**ENDED, "outcome": Outcome.FAILED, "planned_at": None},
            State.FAILED,
            "in planning",
        ),
        (
            {
                **ENDED,
                "outcome": Outcome.FAILED,
                "error": {"type": "TooManyFailed", "message": "11 of 10"},
            },
            State.FAILED,
            "TooManyFailed: 11 of 10",
        ),
        ({**ENDED, "outcome": Outcome.CANCELLED}, State.CANCELLED, "it was cancelled"),
    ],
)
def test_a_job_stands_in_one_word_and_one_sentence(
    given: dict[str, Any], state: State, why: str
) -> None:
    """The first that fits."""
    told = verdict(job_row(**given))
    assert told.state is state
    assert why in told.why


def test_each_code_has_a_meaning() -> None:
    """In words."""
    assert {*MEANINGS} == {*Code}


def test_the_mean_counts_from_the_first_item_to_the_last() -> None:
    """Not the planning before, nor Post after."""
    ended = job_row(
        stage=Stage.POSTING,
        after=500,
        done=950,
        failed=50,
        closed_at=NOW + timedelta(seconds=50),
    )
    assert ended.progress().rate == pytest.approx(10)
    assert ended.progress().eta is None
    assert ended.progress().layer == 2
    assert job_row().progress().rate == pytest.approx(2)
    assert job_row().progress().eta == timedelta(seconds=450)
    assert job_row(paused=True).progress().eta is None
    assert job_row(started_at=None, done=0).progress().rate == 0


def test_the_pace_is_that_of_the_last_looks() -> None:
    """The first look has the mean only; a long pause is soon forgotten."""
    pace = JobPace()
    pace.see(job_row())
    assert pace.rate == pytest.approx(2)
    for second in range(1, 31):
        pace.see(job_row(after=second, done=100 + 20 * second))
    assert pace.rate == pytest.approx(20)
    assert pace.eta == timedelta(seconds=15)
    for second in range(31, 47):
        pace.see(job_row(after=second, done=700))
    assert pace.rate == 0
    assert pace.eta is None


def test_a_run_anew_has_a_pace_of_its_own() -> None:
    """Items that are taken back are no pace backwards."""
    pace = JobPace()
    pace.see(job_row(done=1_000))
    pace.see(job_row(after=1, run=2, done=500))
    pace.see(job_row(after=2, run=2, done=510))
    assert pace.rate == pytest.approx(10)
