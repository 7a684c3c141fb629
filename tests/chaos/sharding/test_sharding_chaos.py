"""Workers, schedulers and callers of sharded jobs are killed by a seeded plan.

PECKER_CHAOS_SEED repeats a plan, PECKER_CHAOS_KILLS sets how many die; without it there
are as many as 45 seconds hold.
``python -m tests.chaos.sharding.long_run`` is the long form.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from celery_pecker.clock import SYSTEM
from tests.chaos.sharding.blows import Blows
from tests.chaos.sharding.long_run import storm, told
from tests.chaos.sharding.stand import Stand

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.conftest import OwnServers

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

GIVEN = os.environ.get("PECKER_CHAOS_KILLS")
KILLS, SECONDS = (int(GIVEN), 1e6) if GIVEN else (25, 45.0)


def test_no_job_is_stuck_no_item_lost_and_no_post_has_its_effect_twice(
    own_servers: OwnServers, queue: str, seed: int, tell: Callable[[str, str], None]
) -> None:
    """Half of the kills are aimed; one of each role is always ready."""
    began = SYSTEM.monotonic()
    with Stand(
        dsn=own_servers.postgres.dsn,
        broker_url=own_servers.redis.url,
        backend_url=own_servers.redis.url,
        queue=queue,
    ) as stand:
        blows = Blows(stand, seed)
        verdict = storm(stand, blows, KILLS, SECONDS)
    tell(
        "sharded jobs",
        "\n".join(told(blows, verdict, SYSTEM.monotonic() - began)),
    )
    assert not verdict.wrong, (seed, verdict.wrong)
    assert verdict.jobs
    assert blows.events
