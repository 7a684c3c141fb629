"""A Flower over a real Redis, with workers that report to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from celery_pecker.testing import EmbeddedRedis
from tests.integration.flower.conftest import shared_dsn
from tests.integration.flower.site import Site
from tests.integration.throttle.crew import Crew
from tests.services import RedisStand
from throttle.model import Amount, Holding

__all__ = ["counting", "crew", "shared_dsn", "site", "start_over"]

STRANGE = "<img src=x onerror='window.hacked = 1'>"
LIMITS: dict[str, Any] = {
    "main": {"operations": 5000, "seconds": 40},
    "quiet": 100,
    STRANGE: 1000,
}


def holding(limit: float, held: int, **more: Any) -> Holding:
    """Return what a worker says that holds so many tasks."""
    seconds = 40.0 if limit == LIMITS["main"]["operations"] else 0.0
    return Holding(
        want=1.0 if held else 0.1,
        limit=Amount(limit, seconds, 0.0),
        held=held,
        held_bytes=2_000 * held,
        admitted=70,
        oldest=3.5,
        tenants={"acme": (held, 70), STRANGE: (0, 3)},
        **more,
    )


WORKERS = {
    "w1@node": {"main": holding(5000.0, 40), STRANGE: holding(1000.0, 0)},
    STRANGE: {"main": holding(5000.0, 2)},
}
TRAFFIC = {"main": 4000.0, STRANGE: 2000.0}


@pytest.fixture(scope="module")
def counting() -> Iterator[EmbeddedRedis]:
    """Give the Redis of the throttle, which tests kill; it is no broker."""
    with EmbeddedRedis(fast=True) as redis:
        yield redis


@pytest.fixture(scope="module")
def crew(counting: EmbeddedRedis) -> Iterator[Crew]:
    """Give workers that report while the module's tests run."""
    with Crew(counting.url, WORKERS, TRAFFIC, {"main": 500.0}) as crew:
        yield crew


@pytest.fixture(scope="module")
def start_over(
    redis_server: RedisStand, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Site]]:
    """Give a function that starts a Flower of an app with these settings."""
    with ExitStack() as stack:

        def begin(*options: str, prefix: str = "", **conf: Any) -> Site:
            site = Site(
                folder=tmp_path_factory.mktemp("flower"),
                broker_url=redis_server.url,
                conf=conf,
                prefix=prefix,
            )
            stack.callback(site.close)
            return site.start(*options)

        yield begin


@pytest.fixture(scope="module")
def site(counting: EmbeddedRedis, start_over: Callable[..., Site], crew: Crew) -> Site:
    """Give a Flower of an app that uses the throttle alone."""
    assert crew.workers
    return start_over(
        "--basic_auth=anna:secret",
        prefix="watch/us",
        throttle_redis_url=counting.url,
        throttle_limits=LIMITS,
        throttle_estimator="fast",
    )
