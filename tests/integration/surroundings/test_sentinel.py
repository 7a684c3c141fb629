"""Redis behind a Sentinel: a replica takes over, and the workers follow to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from celery_pecker.testing import EmbeddedRedis
from tests import sentinels
from tests.integration.surroundings.whole import stand

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


def test_rows_of_every_kind_go_on_at_the_next_primary(
    own_redis: Callable[..., EmbeddedRedis], dsn: str, queue_name: str, tmp_path: Path
) -> None:
    """What the last one had not copied yet is sent again, but what was only relayed."""
    primary, replica = own_redis(fast=True), own_redis(fast=True)
    sentinels.follow(replica, primary)
    with (
        sentinels.sentinel(primary, tmp_path) as port,
        stand(
            dsn,
            f"sentinel://:{primary.password}@127.0.0.1:{port}/0",
            queue_name,
            broker_transport_options={"master_name": sentinels.MASTER},
        ) as made,
    ):
        made.worker()
        made.begin(0)
        made.ends(0)
        made.begin(1)
        primary.kill()
        made.ends(1, lossy=True)
        made.begin(2)
        made.ends(2)
        made.stop(0)
