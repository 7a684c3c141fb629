"""How far a job is."""

from __future__ import annotations

import pytest

from celery_sharding.model import Outcome, Progress, Stage


@pytest.mark.parametrize(
    ("stage", "outcome", "percent"),
    [
        (Stage.SUBMITTED, None, 0.0),
        (Stage.POSTING, None, 100.0),
        (Stage.ENDED, Outcome.SUCCEEDED, 100.0),
        (Stage.DELIVERING, Outcome.FAILED, 0.0),
        (Stage.ENDED, Outcome.CANCELLED, 0.0),
    ],
)
def test_a_job_without_items_is_done_unless_it_never_had_any(
    stage: Stage, outcome: Outcome | None, percent: float
) -> None:
    """One whose PreProcess failed has done nothing."""
    told = Progress(
        stage=stage, outcome=outcome, paused=False, total=0, done=0, failed=0, layer=0
    )
    assert told.percent == percent
