"""What a job message does: its receiver asks the ledger what is next.

    planning   PreProcess runs, and its items become shards
    posting    Post runs once effectively: its value is stored before Celery has it
    leases     kept while code runs; an outage of PostgreSQL, or the end of a process,
               is no death
    delivery   Celery's own tracer stores the outcome, and goes on with chain and chord
    notifying  a threshold of progress was crossed

A stage belongs to one process for a lease, which a thread renews while the
user's code runs. The process that comes after a lapse has a higher epoch, and what the
former one writes then is refused.
"""

from __future__ import annotations

from celery_sharding.stages.delivery import delivered
from celery_sharding.stages.job_messages import run_stage
from celery_sharding.stages.leases import headers_of
from celery_sharding.stages.notifying import notify

__all__ = ["delivered", "headers_of", "notify", "run_stage"]
