"""What follows when something happened to a job: called by any process, at any time.

    advance_job  expired holds end, the next layer opens, messages are sent
    progress     progress goes to the result backend, and Notify is called
    cancelled    a cancelled job is reported to Celery
    actions      what users do to a job, and what follows at once
    serving      which workers a job's shards may be dealt to

Each step is a compare-and-set in the ledger, and each message may be lost: a process
that does the same once more (a worker at the end of its slice, the sweeper) completes
what is left.
"""

from __future__ import annotations

from celery_sharding.flow.actions import (
    cancel,
    expire,
    fail,
    pause,
    rerun,
    resume,
    retry_failed,
    set_concurrency,
    set_options,
)
from celery_sharding.flow.next_step import (
    advance_job,
    close,
    send_open_tickets,
    serving,
)

__all__ = [
    "advance_job",
    "cancel",
    "close",
    "expire",
    "fail",
    "pause",
    "rerun",
    "resume",
    "retry_failed",
    "send_open_tickets",
    "serving",
    "set_concurrency",
    "set_options",
]
