"""One worker and one Redis for each test that asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from celery_pecker.testing import EmbeddedRedis
from tests.integration.worker.stand import Stand


@pytest.fixture
def stand(
    own_redis: Callable[..., EmbeddedRedis], tmp_path: Path
) -> Iterator[Callable[..., Stand]]:
    """Give a function that makes a stand; `forgetful` Redis starts empty again."""
    with ExitStack() as stack:

        def make(*, forgetful: bool = False) -> Stand:
            made = Stand(own_redis(fast=forgetful), tmp_path)
            stack.callback(made.close)
            return made

        yield make
