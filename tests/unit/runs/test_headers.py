"""What headers tell is read back as it was; what is not ours is left aside."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.kernel.clock import from_us
from celery_pecker.runs import Run, headers
from celery_pecker.schedules.engine.model import task_id

INSTANTS = st.integers(0, 4_000_000_000_000_000).map(from_us)
RUNS = st.builds(
    Run,
    name=st.text(min_size=1),
    due_at=INSTANTS,
    era=st.integers(0, 9),
    epoch=st.integers(1, 2**62),
    deadline=INSTANTS,
    attempt=st.integers(0, 9),
)


@given(RUNS, st.text(min_size=1))
def test_a_run_knows_its_own_message(run: Run, other: str) -> None:
    """By the task id of the slot (I5), which is worked out in two places."""
    mine = task_id(run.schema, run.name, run.due_us, run.era)
    assert headers.belongs(run, mine)
    assert not headers.belongs(run, other)


@given(RUNS, st.floats(0, 1e6), INSTANTS)
def test_what_a_sender_tells_is_what_a_worker_reads(
    run: Run, left: float, at: datetime
) -> None:
    """Also through JSON."""
    told = json.loads(json.dumps(headers.deadline_header(left, at, run)))
    read = headers.inherited(told, schema="public")
    assert read is not None
    assert read.run is not None
    assert read.at == at
    assert abs(read.left - left) < 1e-5
    assert read.run.inherited
    assert read.run.deadline == at
    for field in ("name", "due_at", "era", "epoch", "attempt"):
        assert getattr(read.run, field) == getattr(run, field)


GOOD: dict[str, Any] = {
    "name": "sweep",
    "due_at": "2026-01-01T00:00:00+00:00",
    "era": 0,
    "epoch": 7,
    "deadline": None,
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"due_at": "2026-01-01T00:00:00"},
        {"due_at": "2026-01-01T00:00:00+01:00"},
        {"due_at": "soon"},
        {"due_at": None},
        {"epoch": "many"},
        {"deadline": 3},
    ],
    ids=str,
)
def test_what_cannot_be_read_is_no_run(
    wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It is said, and stops nobody."""
    assert headers.read(GOOD, schema="public") is not None
    with caplog.at_level(logging.WARNING):
        assert headers.read(GOOD | wrong, schema="public") is None
    assert "cannot be read" in caplog.text
