"""Desks and workers on both brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.throttle.overflow.desk import Desk
from tests.integration.throttle.worker.stand import Stand


@pytest.fixture
def desks() -> Iterator[Callable[..., Desk]]:
    """Give a function that makes a desk."""
    with ExitStack() as stack:

        def make(url: str, **options: Any) -> Desk:
            made = Desk(url, **options)
            stack.callback(made.remove)
            stack.callback(_close, made)
            return made

        yield make


def _close(desk: Desk) -> None:
    with suppress(OSError):
        desk.close()


@pytest.fixture(params=["redis", "redis-prefixed", "rabbitmq"])
def url_and_options(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Give each broker in turn."""
    if request.param == "rabbitmq":
        return request.getfixturevalue("amqp_server"), {}
    options = {"options": {"global_keyprefix": "tenant-"}}
    url = request.getfixturevalue("redis_url")
    return url, options if request.param == "redis-prefixed" else {}


@pytest.fixture
def desk(
    url_and_options: tuple[str, dict[str, Any]], desks: Callable[..., Desk]
) -> Desk:
    """Give a desk on each broker in turn."""
    url, options = url_and_options
    return desks(url, **options)


@pytest.fixture
def stands(tmp_path: Path, redis_url: str) -> Iterator[Callable[..., Stand]]:
    """Give a function that makes a stand for workers on a broker."""
    with ExitStack() as stack:

        def make(broker: str = redis_url) -> Stand:
            made = Stand(tmp_path, broker=broker, store=redis_url)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture(params=["redis", "rabbitmq"])
def either(request: pytest.FixtureRequest, stands: Callable[..., Stand]) -> Stand:
    """Give a stand on each broker in turn."""
    if request.param == "rabbitmq":
        return stands(request.getfixturevalue("amqp_url"))
    return stands()
