"""Claims as fast as it can: one replica of several that compete for the same entries.

Each entry comes due again a millisecond after it was claimed, so that there is always
something to take. Nothing is published: what is measured is the claim alone.

    DSN SCHEMA ENTRIES BATCH BEGIN SECONDS FILE   (tests.told)
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.environment import TASK, entry
from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.schedules.engine.model import ClaimRequest, Delivery, Entry, Policy
from celery_pecker.schedules.engine.repository import Repository
from tests.told import told

PERIOD_US = 1000
AHEAD_US = 60_000_000
UNTIL_S = 60.0


def main(
    dsn: str, schema: str, entries: int, batch: int, *, begin: float, seconds: float
) -> dict[str, list[float]]:
    """Return what was claimed (entry, instant), and how long each claim took."""
    repository = Repository(
        Database(dsn, schema=schema, timeout=UNTIL_S, role="claimer"), new_id()
    )
    wanted = [_wanted(number) for number in range(entries)]
    taken: dict[str, list[float]] = {"nth": [], "due_us": [], "claim_s": []}
    chance = random.Random(new_id().int)
    repository.claim(wanted[:1], until_us=0)  # connects, and takes nothing
    time.sleep(max(begin - time.time(), 0.0))
    while (now := time.time()) < begin + seconds:
        first = chance.randrange(0, entries, batch)
        until_us = int((now + UNTIL_S) * 1e6)
        _, wins = repository.claim(wanted[first : first + batch], until_us=until_us)
        taken["claim_s"].append(time.time() - now)
        taken["nth"] += [first + win.nth - 1 for win in wins]
        taken["due_us"] += [win.due_us for win in wins]
    return taken


def _wanted(number: int) -> ClaimRequest:
    return ClaimRequest(
        entry=Entry(
            name=entry(number),
            task=TASK,
            described="every millisecond",
            policy=Policy(delivery=Delivery.AT_MOST_ONCE),
            period_us=PERIOD_US,
        ),
        ahead_us=AHEAD_US,
    )


if __name__ == "__main__":
    dsn, schema, entries, batch, begin, seconds, path = told()
    found = main(
        dsn,
        schema,
        int(entries),
        int(batch),
        begin=float(begin),
        seconds=float(seconds),
    )
    columns: dict[str, Any] = {name: np.array(them) for name, them in found.items()}
    np.savez(Path(path), **columns)
