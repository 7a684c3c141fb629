"""One worker and one Redis for each test that asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from celery_pecker.testing import EmbeddedRedis
from tests.integration.worker.crew import Crew
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


@pytest.fixture
def crews(tmp_path: Path) -> Iterator[Callable[..., Crew]]:
    """Give a function that makes a crew: workers that are schedulers."""
    with ExitStack() as stack:

        def make(name: str, *, dsn: str, broker: str, **conf: object) -> Crew:
            made = Crew(tmp_path, dsn=dsn, broker=broker, name=name, **conf)
            stack.callback(made.close)
            return made

        yield make
