"""A Flower of an app with sharded tasks, and jobs for it to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from celery_pecker.kernel.clock import SYSTEM
from tests.integration.flower.conftest import shared_dsn, start
from tests.integration.flower.site import Site
from tests.integration.sharding.flower.scene import WITH_TASKS
from tests.integration.sharding.reading.written import Written

__all__ = ["shared_dsn", "site", "start", "written"]


@pytest.fixture(scope="module")
def written(shared_dsn: str) -> Iterator[Written]:
    """Give what writes rows, as of now."""
    rows = Written(shared_dsn, SYSTEM.now())
    yield rows
    rows.close()


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower on which anybody may do all."""
    env: dict[str, Any] = {"FLOWER_UNAUTHENTICATED_API": "true"}
    return start(shared_dsn, before=WITH_TASKS, env=env)
