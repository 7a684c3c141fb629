"""Clusters for the tests: shared by a module where its tests heal what they break."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis, ServerMissing
from tests.chaos import report
from tests.chaos.cluster import Cluster
from tests.services import absent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.chaos.verdict import Verdict

_TOLD = pytest.StashKey[list[str]]()


class OwnServers:
    """A PostgreSQL and a Redis that a module may kill, freeze and restart."""

    def __init__(self, postgres: EmbeddedPostgres, redis: EmbeddedRedis) -> None:
        self.postgres = postgres
        self.redis = redis


@pytest.fixture(scope="module")
def own_servers() -> Iterator[OwnServers]:
    """A migrated PostgreSQL and a Redis of this module's own."""
    with ExitStack() as stack:
        try:
            postgres = stack.enter_context(EmbeddedPostgres(fast=True))
            redis = stack.enter_context(EmbeddedRedis())
        except ServerMissing as error:
            absent("PostgreSQL and Redis", error, required=True)
        migrate(postgres.dsn, schema="public")
        yield OwnServers(postgres, redis)


@pytest.fixture(scope="module")
def queue() -> str:
    """A queue name that nobody else has."""
    return f"pecker-chaos-{secrets.token_hex(6)}"


@pytest.fixture(scope="module")
def cluster(own_servers: OwnServers, queue: str) -> Iterator[Cluster]:
    """A cluster of the module's own on its own servers; replicas are added by tests."""
    with Cluster(
        dsn=own_servers.postgres.dsn, broker_url=own_servers.redis.url, queue=queue
    ) as made:
        yield made


@pytest.fixture(scope="session")
def seed() -> int:
    """PECKER_CHAOS_SEED, or another one each time; told in the report."""
    given = os.environ.get("PECKER_CHAOS_SEED")
    return int(given) if given else secrets.randbelow(1_000_000)


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str, Verdict | str], None]:
    """Give a function that adds figures to the report at the end of the run."""
    told = request.config.stash.setdefault(_TOLD, [])

    def say(title: str, what: Verdict | str) -> None:
        if isinstance(what, str):
            told.append(f"{title}: {what}")
        else:
            told.extend(report.lines(title, what))

    return say


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """The figures of the chaos tests, which no test asserts, are shown."""
    told = config.stash.get(_TOLD, [])
    if told:
        terminalreporter.section("chaos", sep="-")
        for line in told:
            terminalreporter.write_line(line)
