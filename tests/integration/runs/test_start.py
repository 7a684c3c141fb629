"""Start checks by a DSN of several hosts, of which the first never answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import make_conninfo

from celery_pecker.kernel import hosts
from tests.proxy import Proxy

if TYPE_CHECKING:
    from tests.integration.runs.conftest import Bench


@pytest.fixture
def silent(bench: Bench) -> Iterator[Proxy]:
    """Give the way to a server that accepts and never answers."""
    hosts._silent.clear()
    with Proxy(*bench.place) as proxy:
        proxy.hang()
        yield proxy


def both(bench: Bench, silent: Proxy) -> str:
    """Return the address of the silent host and of one that is well."""
    host, port = bench.place
    return make_conninfo(
        bench.dsn, host=f"127.0.0.1,{host}", port=f"{silent.port},{port}"
    )


def done() -> str:
    """Be a task."""
    return "done"


def test_runs_start_while_the_first_host_is_silent(bench: Bench, silent: Proxy) -> None:
    """Entries with a timeout never ran: no start check reached the second host."""
    task = bench.task(name="look")(done)
    bench.guard(dsn=both(bench, silent), database_timeout=1.0)
    assert bench.deliver(task, bench.claim()) == ("SUCCESS", "done")


def test_runs_start_again_after_a_failover_from_a_frozen_primary(
    bench: Bench, silent: Proxy
) -> None:
    """Connections that stand lead to it; one answer that does not come ends them."""
    silent.open()
    task = bench.task(name="look")(done)
    guard = bench.guard(dsn=both(bench, silent), database_timeout=0.5)
    starter = guard._starter
    with (
        starter._connections.connection(1.0) as one,
        starter._connections.connection(1.0) as two,
    ):
        for database in (one, two):
            database.run("read_tasks", names=[], now=None)
    silent.hang()
    assert bench.deliver(task, bench.claim())[0] == "IGNORED"
    assert bench.deliver(task, bench.claim()) == ("SUCCESS", "done")
