"""Messages of sharded jobs. None is load-bearing: each says that there may be work.

    job     the user's own task, under the job's own task id: plans, runs Post, and lets
            Celery go on with what the job was called with
    ticket  `celery_sharding.work`, (job, ticket, seq): may run shards
    notify  `celery_sharding.notify`, (task id): a threshold of progress was crossed

Each may be lost, doubled and late: its receiver asks the ledger. So nothing here raises
because the broker is away: the sweeper sends again what was not taken.
"""

from __future__ import annotations

from celery_sharding.messages.continuation import from_request, wait_of
from celery_sharding.messages.names import (
    NOTIFY,
    OPTIONS,
    PURGE,
    RESENT,
    RUN,
    SENT_BY,
    SWEEP,
    WORK,
)
from celery_sharding.messages.sending import (
    as_called,
    send_job,
    send_notify,
    send_tickets,
)

__all__ = [
    "NOTIFY",
    "OPTIONS",
    "PURGE",
    "RESENT",
    "RUN",
    "SENT_BY",
    "SWEEP",
    "WORK",
    "as_called",
    "from_request",
    "send_job",
    "send_notify",
    "send_tickets",
    "wait_of",
]
