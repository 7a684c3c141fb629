"""The request of an item, in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery_sharding import sharded
from tests.integration.sharding.worker.conftest import Jobs

pytestmark = [
    pytest.mark.cluster,
    # Celery's backend calls what redis-py would have called otherwise.
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]


def test_an_item_has_the_headers_and_properties_of_its_job(
    jobs: Callable[..., Jobs],
) -> None:
    """Whichever message its shard was run by; a base of the task reads them."""
    made = jobs(constants={"slice": 0.05})
    made.worker("-P", "solo")
    job: Any = sharded(made.app.tasks["jobs.user"].s(), [1, 2, 3], size=(1, 1))
    result = job.apply_async(user="ann", headers={"trace": "of the call"})
    counted = {"total": 3, "done": 3, "failed": 0}
    assert result.get(timeout=40.0) == counted, [*result.errors()]
    expected = [[item, "ann", {"trace": "of the call"}] for item in (1, 2, 3)]
    assert sorted(result.results()) == expected
