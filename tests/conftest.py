"""Servers, databases and settings that all tests share. See tests/README.md."""

from __future__ import annotations

import gc
import itertools
import logging
import re
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
import redis
from _pytest.nodeid import NodeId
from _pytest.terminal import TerminalReporter
from celery import _state as celery_state
from kombu import Connection, Queue

from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis, ServerMissing
from tests import forked, profiles, services
from tests.services import PostgresStand, RedisStand, absent

profiles.load()
forked.install()

Server = TypeVar("Server", EmbeddedPostgres, EmbeddedRedis)

TESTS = Path(__file__).parent
CHAOS = TESTS / "chaos"
LONG = ("cluster", "chaos", "slow")
"""Marks of tests that start processes, or wait for something."""
LOOP = re.compile(
    r"pecker-(beat|worker|local|history|events|relay.*|outbox-.*|.*-alarms.*)"
)
"""Threads of `Loop`, which step until they are stopped."""
GIVEN = bool(services.GIVEN_DSN or services.GIVEN_REDIS or services.GIVEN_AMQP)
STANDS = (
    ["given-redis", *(["given-rabbitmq"] if services.GIVEN_AMQP else [])]
    if GIVEN
    else [
        "embedded",
        pytest.param("local-redis", marks=pytest.mark.soak),  # as embedded
        "local-rabbitmq",
    ]
)


# Logging


@pytest.fixture(autouse=True)
def _logging_stays() -> Iterator[None]:
    """Give back to each test the loggers as they were: Celery's commands set them up.

    A test that reads the log behind one of them saw nothing.
    """
    root = logging.getLogger()
    before = root.level, [*root.handlers], root.manager.disable
    yield
    level, handlers, disabled = before
    root.setLevel(level)
    # pytest's own come and go around us: only what is new leaves
    for handler in [one for one in root.handlers if one not in handlers]:
        root.removeHandler(handler)
    logging.disable(disabled)
    for name in root.manager.loggerDict:
        if name.partition(".")[0] in {"celery_pecker", "celery_sharding", "throttle"}:
            logger = logging.getLogger(name)
            logger.disabled, logger.propagate = False, True
            logger.setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def _loops_end() -> Iterator[None]:
    """Fail a test that leaves a loop of ours running.

    It would fail each quarter of a second for the rest of the run, as its database is
    gone; and a traceback that is written while another thread parses Python makes the
    parser of Python 3.11 raise SystemError, in a test that has nothing to do with it.
    """
    before = {*threading.enumerate()}
    yield
    left = [
        thread
        for thread in threading.enumerate()
        if thread not in before and LOOP.fullmatch(thread.name)
    ]
    for thread in left:
        thread.join(30.0)
    names = [thread.name for thread in left if thread.is_alive()]
    assert not names, f"the test has stopped all but {names}"


@pytest.fixture(autouse=True)
def _results_may_be_waited_for() -> None:
    """Undo what Celery sets for the process when a worker makes its pool.

    A test that makes a worker inside of pytest would else have each later `get()` of
    the run refused: "Never call result.get() within a task!"
    """
    state: Any = celery_state
    state._set_task_join_will_block(False)


# PostgreSQL


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresStand]:
    """PostgreSQL of PECKER_TEST_DSN, else an embedded one; `.dsn` is its address."""
    with ExitStack() as stack:
        dsn = services.GIVEN_DSN
        try:
            if not dsn:
                dsn = stack.enter_context(EmbeddedPostgres(fast=True)).dsn
            services.ask_postgres(dsn)
        except (ServerMissing, psycopg.Error) as error:
            absent("PostgreSQL", error, required=True)
        stand = PostgresStand(dsn)
        stack.callback(stand.close)
        yield stand


@pytest.fixture(scope="session")
def local_postgres() -> Iterator[PostgresStand]:
    """Give the PostgreSQL that this machine runs by itself."""
    try:
        services.ask_postgres(services.LOCAL_DSN)
    except psycopg.Error as error:
        absent("PostgreSQL of this machine", error, required=False)
    stand = PostgresStand(services.LOCAL_DSN)
    yield stand
    stand.close()


@pytest.fixture
def dsn(postgres_server: PostgresStand) -> Iterator[str]:
    """Give the address of a database of this test's own, migrated."""
    with postgres_server.fresh(migrated=True) as address:
        yield address


@pytest.fixture
def empty_dsn(postgres_server: PostgresStand) -> Iterator[str]:
    """Give the address of a database of this test's own, without our tables."""
    with postgres_server.fresh(migrated=False) as address:
        yield address


# Redis and RabbitMQ


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisStand]:
    """Redis of PECKER_TEST_REDIS_URL, else an embedded one; `.url` is its address."""
    with ExitStack() as stack:
        try:
            if services.GIVEN_REDIS:
                url = services.hold_database(services.GIVEN_REDIS)
                stand = RedisStand(url, shared=True)
                stack.callback(stand.close)
            else:
                server = stack.enter_context(EmbeddedRedis(fast=True))
                stand = RedisStand(server.url, shared=False)
        except (ServerMissing, redis.RedisError) as error:
            absent("Redis", error, required=True)
        yield stand


@pytest.fixture(scope="session")
def local_redis() -> Iterator[RedisStand]:
    """Give an empty database of the Redis that this machine runs by itself."""
    try:
        url = services.hold_database(services.LOCAL_REDIS)
    except redis.RedisError as error:
        absent("Redis of this machine", error, required=False)
    stand = RedisStand(url, shared=True)
    yield stand
    stand.close()


@pytest.fixture
def redis_url(redis_server: RedisStand) -> str:
    """Give the address of an empty Redis database; the test may empty it at will."""
    redis_server.flush()
    return redis_server.url


@pytest.fixture(scope="session")
def amqp_server() -> Iterator[str]:
    """RabbitMQ of PECKER_TEST_AMQP_URL, else the one that this machine runs.

    There in a virtual host of our own, if we may make one.
    """
    url = services.GIVEN_AMQP or services.LOCAL_AMQP
    try:
        services.ask_amqp(url)
    except OSError as error:
        absent("RabbitMQ", error, required=bool(services.GIVEN_AMQP))
    if services.GIVEN_AMQP:
        yield url
    else:
        with services.own_vhost(url) as mine:
            yield mine


@pytest.fixture
def amqp_url(amqp_server: str) -> str:
    """Give the address of a RabbitMQ that others may use too: see `queue_name`."""
    return amqp_server


@pytest.fixture
def queue_name() -> str:
    """Give a name that no other test and no other run has."""
    return f"pecker-test-{secrets.token_hex(6)}"


# All of them together


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """One database and one broker for a cluster test."""

    name: str
    dsn: str
    """A migrated database of this test's own."""
    broker_url: str
    queue: str
    """A queue of this test's own, removed at the end."""


@pytest.fixture(params=STANDS)
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Give each kind of servers in turn: embedded, then those of this machine.

    With PECKER_TEST_DSN, …_REDIS_URL or …_AMQP_URL only those that were given.
    """
    place, _, broker = request.param.partition("-")
    prefix = "local" if place == "local" else ""
    queue: str = request.getfixturevalue("queue_name")
    if broker == "rabbitmq":
        broker_url = request.getfixturevalue("amqp_url")
    else:
        stand = request.getfixturevalue(f"{prefix}_redis" if prefix else "redis_server")
        stand.flush()
        broker_url = stand.url
    postgres = request.getfixturevalue(
        f"{prefix}_postgres" if prefix else "postgres_server"
    )
    with postgres.fresh(migrated=True) as address:
        yield Servers(
            name=request.param, dsn=address, broker_url=broker_url, queue=queue
        )
    if broker == "rabbitmq":
        with Connection(broker_url) as connection:
            Queue(queue)(connection.channel()).delete()


# Servers that a test may kill, freeze and restart


@pytest.fixture
def own_postgres() -> Iterator[Callable[..., EmbeddedPostgres]]:
    """Give a function that starts a PostgreSQL for this test alone.

    `migrated=True` adds our tables to its database `postgres`; all else is handed to
    `EmbeddedPostgres`.
    """
    with ExitStack() as stack:

        def start(*, migrated: bool = False, **options: Any) -> EmbeddedPostgres:
            wanted = {"fast": True, **options}
            server = _begin(stack, "PostgreSQL", EmbeddedPostgres, **wanted)
            if migrated:
                migrate(server.dsn, schema="public")
            return server

        yield start


@pytest.fixture
def own_redis() -> Iterator[Callable[..., EmbeddedRedis]]:
    """Give a function that starts a Redis for this test alone."""
    with ExitStack() as stack:

        def start(**options: Any) -> EmbeddedRedis:
            return _begin(stack, "Redis", EmbeddedRedis, **options)

        yield start


def _begin(stack: ExitStack, name: str, kind: type[Server], **options: Any) -> Server:
    try:
        return stack.enter_context(kind(**options))
    except ServerMissing as error:
        absent(name, error, required=True)


# The run

_finished = itertools.count(1)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keep together what belongs together, and begin with what takes long.

    Whole clusters whose pace is judged stand in two lines, by their modules. Tests that
    share something of their module run in one process, so that it is made once. All
    others go to whoever is free; those that start processes go first, lest one is left
    over at the end.
    """
    items.sort(key=lambda item: not any(map(item.get_closest_marker, LONG)))
    if not hasattr(config, "workerinput"):
        return
    chaos = sorted(CHAOS.rglob("test_*.py"))
    for item in items:
        if item.path in chaos:
            line = f"chaos {chaos.index(item.path) % 2}"
        else:
            line = shared_with_module(item)
        if line:
            # As xdist would for a mark of it: it sets a name that pytest 9.2 has not
            grouped: Any = item
            grouped._id = NodeId.parse(f"{item.nodeid}@{line}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave garbage alone while tests are collected: of these objects none is."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Leave what was collected out of each later collection of garbage.

    Eight thousand tests are half a million objects: a walk over them takes long.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish() -> None:
    """Leave out of later collections what has outlived the last fifty tests.

    Modules that were imported, trees that were parsed: tests that collect what they
    leave behind spent half a second of processor time each on a walk over all that.
    """
    if not next(_finished) % 50:
        gc.collect()
        gc.freeze()


def shared_with_module(item: pytest.Item) -> str:
    """Return which module, and which parameters, a test shares fixtures of; or ""."""
    own: Any = item
    fixtures: dict[str, Any] = own._fixtureinfo.name2fixturedefs
    shared = {
        name
        for name, known in fixtures.items()
        if any(one.scope == "module" for one in known)
    }
    if not shared:
        return ""
    params = own.callspec.params if hasattr(own, "callspec") else {}
    values = [str(params[name]) for name in sorted(shared & params.keys())]
    return "-".join([str(item.path.relative_to(TESTS)), *values])


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """List the services that were not there, and how many tests that cost."""
    if terminalreporter.config.option.collectonly:
        return
    missed: Counter[str] = Counter()
    for report in terminalreporter.getreports("skipped"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, found, service = reason.partition(services.ABSENT)
        if found:
            missed[service] += 1
    terminalreporter.section("skipped services", sep="-")
    for service, count in sorted(missed.items()):
        terminalreporter.write_line(f"{service}: {count} skipped")
    if not missed:
        terminalreporter.write_line("none")
