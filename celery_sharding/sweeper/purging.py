"""The purge: jobs that ended long ago are forgotten, in small bites."""

from __future__ import annotations

from typing import Any

from celery_pecker.kernel.clock import monotonic
from celery_sharding.ledger import at
from celery_sharding.settings import ShardingSettings

LONGEST = 20.0
"""Seconds for which one purge goes on; what is left is the next one's."""


def purge(app: Any) -> int:
    """Delete jobs that ended before sharding_retention; return how many rows."""
    ledger = at(app, role="sweeper")
    retention = ShardingSettings.read(app.conf).retention
    end = monotonic() + LONGEST
    gone = 0
    while part := ledger.upkeep.purge(retention):
        gone += part
        if monotonic() >= end:
            break
    return gone
