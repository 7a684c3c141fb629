"""Errors that cross processes."""

from __future__ import annotations

import pickle

from celery_pecker.kernel.errors import UnknownSchedule


def test_an_unknown_schedule_is_the_same_in_another_process() -> None:
    """Celery pickles what a task raises."""
    for error in (UnknownSchedule("bills"), UnknownSchedule("bills", "it is gone")):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  # as Celery does it
        assert (str(again), again.name) == (str(error), "bills")
