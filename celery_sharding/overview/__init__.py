"""What people see of sharded jobs: read from the ledger, never from events.

    looking    one look at one job: itself, its layers, its grid, who takes long, errors
    verdict    how a job stands, in one word and one sentence: pure
    meanings   what each status code means, for people: pure
    pace       how fast it goes just now, from one look to the next: pure

The command line and the pages in Flower stand on these. They need nothing but the
tables: no broker, no worker that answers, no code of the job.
"""

from __future__ import annotations

from celery_sharding.overview.looking import Look, look
from celery_sharding.overview.meanings import MEANINGS, Meaning
from celery_sharding.overview.pace import Pace
from celery_sharding.overview.verdict import State, Verdict, verdict

__all__ = [
    "MEANINGS",
    "Look",
    "Meaning",
    "Pace",
    "State",
    "Verdict",
    "look",
    "verdict",
]
