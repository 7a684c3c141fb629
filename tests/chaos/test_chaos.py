"""Kills and freezes by a seeded plan, aimed and at random, on every kind of servers.

PECKER_CHAOS_SEED repeats a plan, PECKER_CHAOS_SLOTS sets how many slots fall due on
each kind. ``python -m tests.chaos.long_run`` is the long form.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.driver import Chaos

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.verdict import Verdict
    from tests.conftest import Servers

pytestmark = pytest.mark.chaos

ENTRIES = 20
SLOTS = int(os.environ.get("PECKER_CHAOS_SLOTS", "240"))


def test_no_slot_is_doubled_and_none_is_lost_without_a_blow_that_explains_it(
    servers: Servers, seed: int, tell: Callable[[str, Verdict], None]
) -> None:
    """Three replicas, one of them always ready; half of the blows are aimed."""
    with Cluster(
        dsn=servers.dsn,
        broker_url=servers.broker_url,
        queue=servers.queue,
        entries=ENTRIES,
    ) as cluster:
        cluster.replicas(3)
        since = cluster.await_slot(cluster.now)
        until = since + SLOTS / ENTRIES * cluster.period
        chaos = Chaos(cluster.beats, cluster.recorder, seed=seed)
        chaos.run(until)
        verdict = cluster.verdict(since, until, chaos.events)
    tell(f"chaos on {servers.name}, seed {seed}", verdict)
    assert verdict.stands, (seed, verdict)
    assert chaos.events
