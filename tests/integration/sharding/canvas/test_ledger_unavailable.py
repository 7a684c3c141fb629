"""A canvas goes on while the ledger is away, and ends when it is back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from celery import chain

from celery_pecker.kernel.clock import new_tag
from celery_pecker.testing import EmbeddedPostgres
from tests.integration.sharding.canvas.stage import playing

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]


def test_a_chain_reaches_a_sharded_step_while_there_is_no_ledger(
    own_postgres: Callable[..., EmbeddedPostgres], redis_url: str, queue_name: str
) -> None:
    """The step before has succeeded; the job is submitted once it can be."""
    server = own_postgres(migrated=True)
    conf = {
        "broker_url": redis_url,
        "result_backend": redis_url,
        "task_default_queue": queue_name,
        "broker_connection_retry_on_startup": True,
        "pecker_dsn": server.dsn,
        "pecker_worker": ["scheduler"],
    }
    with playing(conf, notes=redis_url, queue=queue_name) as scene:
        key = new_tag()
        server.stop()
        first = scene.cast.listing.s(3).set(link=scene.cast.note.s(key))
        result = chain(first, scene.cast.rows.s(), scene.cast.add.s(1)).apply_async()
        scene.noted(key)
        scene.state(result.parent, "RETRY")
        server.start()
        assert scene.value(result) == 7
