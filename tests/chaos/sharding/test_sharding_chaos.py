"""Workers, schedulers and callers of sharded jobs are killed by a seeded plan.

PECKER_CHAOS_SEED repeats a plan, PECKER_CHAOS_KILLS sets how many die; without it there
are as many as 20 seconds hold, and in `make soak` as many as four minutes do.
``python -m tests.chaos.sharding.long_run`` is the long form.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from celery_pecker.kernel.clock import SYSTEM
from tests.chaos.sharding.blows import Blows
from tests.chaos.sharding.long_run import storm, told
from tests.chaos.sharding.stand import Stand

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.conftest import OwnServers

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

GIVEN = os.environ.get("PECKER_CHAOS_KILLS")
STORMS = [
    pytest.param(10, 20.0, id="short"),
    pytest.param(200, 240.0, id="long", marks=pytest.mark.soak),
]
"""Kills, and the seconds after which there are no more; or so many as are asked for."""


@pytest.mark.parametrize(("kills", "seconds"), [(int(GIVEN), 1e6)] if GIVEN else STORMS)
def test_no_job_is_stuck_no_item_lost_and_no_post_has_its_effect_twice(
    own_servers: OwnServers,
    queue: str,
    seed: int,
    tell: Callable[[str, str], None],
    kills: int,
    seconds: float,
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
        verdict = storm(stand, blows, kills, seconds)
    tell(
        "sharded jobs",
        "\n".join(told(blows, verdict, SYSTEM.monotonic() - began)),
    )
    assert not verdict.wrong, (seed, verdict.wrong)
    assert verdict.jobs
    assert blows.events
