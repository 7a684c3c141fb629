"""What a pool's processes do is counted: forked, or fresh interpreters."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.integration.throttle.worker.stand import Stand
from tests.services import PostgresStand

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_a_pool_does_is_counted(
    stands: Callable[..., Stand], postgres_server: PostgresStand, method: str
) -> None:
    """Each run with its own statements: the worker has learned what they cost."""
    with postgres_server.fresh(migrated=False) as dsn:
        stand = stands(dsn=dsn)
        stand.start(worker_pool_start_method=method)
        names = [f"s{number}" for number in range(20)]
        stand.send("stated", *names, args=(10,))
        stand.until(stand.ran_all(*names), "all ran", 60.0)

        stand.end()
    operations, *_, runs = json.loads(stand.store.recall("main"))["stated"]
    assert (operations, runs) == (10.0, len(names))
