"""One scheduler of a process, put together: its loop, its connections, its end.

Beat has one of these, a worker has one or two: one that publishes, and one that runs
local entries, with a thread and a connection of its own, so that a broker that hangs
never delays a local run.

==================  =========================================================
``replica``         what beat and workers hold in their hands; what it claims with
``compose``         how it is put together
``dispatching``     where won slots go, and what may hold entries back
``relays``          the threads that deliver outboxes
``alarms``          the threads that look for what is wrong, and send notices
==================  =========================================================
"""

from celery_pecker.schedules.replica.alarms import Alarms
from celery_pecker.schedules.replica.compose import compose
from celery_pecker.schedules.replica.relays import Relays
from celery_pecker.schedules.replica.replica import (
    LAST_BATCH,
    Claimant,
    Replica,
    answerer,
)

__all__ = [
    "LAST_BATCH",
    "Alarms",
    "Claimant",
    "Relays",
    "Replica",
    "answerer",
    "compose",
]
