"""Flowers of a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.integration.flower.site import Site
from tests.services import PostgresStand, RedisStand


@pytest.fixture(scope="module")
def shared_dsn(postgres_server: PostgresStand) -> Iterator[str]:
    """Give the address of a database for all tests of a module."""
    with postgres_server.fresh(migrated=True) as address:
        yield address


@pytest.fixture(scope="module")
def start(
    redis_server: RedisStand, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Site]]:
    """Give a function that starts a Flower on a database."""
    with ExitStack() as stack:

        def begin(
            dsn: str, *options: str, prefix: str = "", more: str = "", **how: Any
        ) -> Site:
            site = Site(
                folder=tmp_path_factory.mktemp("flower"),
                broker_url=redis_server.url,
                conf={"pecker_dsn": dsn, "pecker_database_timeout": 1.0},
                prefix=prefix,
                more=more,
            )
            stack.callback(site.close)
            return site.start(*options, **how)

        yield begin
