"""What the processes and threads of a pool count, and for which task.

The children of prefork have a place each in memory that they share with the worker: a
child that starts takes it by its number, also one that replaces another. All other
pools count in the worker's own process.
"""

from __future__ import annotations

import os
from typing import Any

from billiard import current_process
from celery import signals

from throttle.meter import meter
from throttle.worker.going import run_of

SPARE = 8
"""Places for children that `pool_grow` adds to a running worker."""


def prepare(worker: Any) -> None:
    """Runs of tasks are told apart, and children have a place to count.

    Before the pool starts.
    """
    meter.share(max(worker.max_concurrency or 0, worker.concurrency) + SPARE)
    parent = os.getpid()

    def enter(**_: object) -> None:
        if os.getpid() != parent:  # the solo pool says so in the worker itself
            meter.enter(current_process().index)  # type: ignore[attr-defined]

    signals.worker_process_init.connect(
        enter, dispatch_uid="throttle.worker.pool", weak=False
    )
    signals.task_prerun.connect(_begin, dispatch_uid="throttle.worker.pool", weak=False)
    signals.task_postrun.connect(_end, dispatch_uid="throttle.worker.pool", weak=False)


def _begin(*, task: Any, **_: object) -> None:
    # What no route names is nobody's cost. What a task calls by `apply` is a part of
    # its own run, and has a request without a number.
    if run := run_of(task.request):
        meter.begin(run)


def _end(*, task: Any, **_: object) -> None:
    if run_of(task.request):
        meter.end()
