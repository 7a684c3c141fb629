"""A pool whose processes are fresh interpreters: nothing of the worker is theirs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.integration.throttle.worker.stand import Stand
from tests.services import PostgresStand

pytestmark = pytest.mark.cluster


def test_what_a_pool_that_spawns_does_is_counted(
    stands: Callable[..., Stand], postgres_server: PostgresStand
) -> None:
    """Each run with its own statements: the worker has learned what they cost."""
    with postgres_server.fresh(migrated=False) as dsn:
        stand = stands(dsn=dsn)
        stand.start(worker_pool_start_method="spawn")
        names = [f"s{number}" for number in range(20)]
        stand.send("stated", *names, args=(10,))
        stand.until(stand.ran_all(*names), "all ran", 60.0)

        stand.end()
    operations, *_, runs = json.loads(stand.store.recall("main"))["stated"]
    assert (operations, runs) == (10.0, len(names))
