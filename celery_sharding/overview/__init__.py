"""What people see of sharded jobs: read from the ledger, never from events.

    snapshot   one job at one instant: itself, layers, grid, stragglers, errors
    verdict    how a job stands, in one word and one sentence: pure
    meanings   what each status code means, for people: pure
    pace       how fast it goes just now, from one snapshot to the next: pure

The command line and the pages in Flower stand on these. They need nothing but the
tables: no broker, no worker that answers, no code of the job.
"""

from __future__ import annotations

from celery_sharding.overview.meanings import MEANINGS, Meaning
from celery_sharding.overview.pace import Pace
from celery_sharding.overview.snapshot import Snapshot, take_snapshot
from celery_sharding.overview.verdict import State, Verdict, verdict

__all__ = [
    "MEANINGS",
    "Meaning",
    "Pace",
    "Snapshot",
    "State",
    "Verdict",
    "take_snapshot",
    "verdict",
]
