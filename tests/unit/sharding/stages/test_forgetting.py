"""The result of an earlier run makes room for that of the next."""

from __future__ import annotations

import pytest
from celery import Celery

from celery_sharding.stages import delivery


def test_an_app_without_results_has_nothing_to_forget(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nor anything to complain of."""
    app = Celery("no-results", set_as_current=False)
    delivery.forget(app, "calls.rows", "no-results-1")
    assert not caplog.records
