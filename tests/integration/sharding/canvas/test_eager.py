"""The same shapes in the caller: no worker, no broker, no database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_sharding import (
    Isolate,
    Outcome,
    Shard,
    Sharding,
    Stage,
    TooManyFailed,
    WrongStage,
)
from tests.integration.sharding.canvas.cast import BAD, cast
from tests.integration.sharding.canvas.shapes import EAGER, SHAPES, Scene


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Give an app whose tasks run where they are called."""
    made = cast(
        {
            "task_always_eager": True,
            "broker_url": "memory://",
            "result_backend": "cache+memory://",
        }
    )
    yield Scene(cast=made, eager=True)
    made.app.close()


@pytest.mark.parametrize("name", sorted(EAGER))
def test_shape(scene: Scene, name: str) -> None:
    """The canvas comes to what it would in workers."""
    SHAPES[name](scene)


@pytest.mark.parametrize(
    "act", ["pause", "resume", "cancel", "retry_failed", "rerun", "set", "shards"]
)
def test_a_job_that_has_ended_in_the_caller_is_past_all_that(
    scene: Scene, act: str
) -> None:
    """It says so, as a job in a ledger would: code that is tested so calls these."""
    result = scene.cast.rows.delay([1, 2])
    with pytest.raises(WrongStage, match="ran in the caller"):
        getattr(result, act)()


def test_progress_says_that_a_job_in_the_caller_failed(scene: Scene) -> None:
    """Whether it came to its last item or not."""
    for task in (scene.cast.strict, scene.cast.refuses):
        progress = task.delay([1, BAD, 2]).progress
        assert (progress.stage, progress.outcome) == (Stage.ENDED, Outcome.FAILED)
    assert scene.cast.rows.delay([1]).progress.outcome is Outcome.SUCCEEDED


def test_items_that_a_call_left_undone_count_one_by_one(scene: Scene) -> None:
    """A job in the caller bears no more of them than one in workers."""

    def collected(shard: Shard) -> None:
        raise ValueError(len(list(shard)))

    most = Isolate(max_failed=9)
    task = Sharding(scene.cast.app).task(name="eager.all", on_error=most)(collected)
    with pytest.raises(TooManyFailed, match="10 of 10 items failed"):
        task(range(10))
