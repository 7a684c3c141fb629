"""What every test of the throttle's parts starts from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from throttle.worker.held_tasks import scheduled


@pytest.fixture(autouse=True)
def nothing_scheduled() -> Iterator[None]:
    """Leave no request of a test among the scheduled ones: they are the process's."""
    yield
    for one in tuple(scheduled):
        scheduled.discard(one)
