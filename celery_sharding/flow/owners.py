"""Which workers a job's shards may be dealt to."""

from __future__ import annotations

from typing import Any

from celery_sharding.ledger import Ledger
from celery_sharding.ledger.upkeep import Executor
from celery_sharding.messages.route import queues_of


def serving(app: Any, ledger: Ledger, job: int) -> list[Executor]:
    """Return the live workers that consume from the job's queue, by name.

    Only those have a ``direct_queue`` whom a message can be sent to alone.
    """
    stands = ledger.outcomes.threshold(job)
    if stands is None:
        return []
    return ledger.placements.serving(
        queues_of(app, stands.task, stands.continuation, stands.queue)
    )
