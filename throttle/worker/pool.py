"""What the processes and threads of a pool count, and for which task.

The children of prefork have a place each in memory that they share with the worker: a
child that starts takes it by its number, also one that replaces another. Those that are
fresh interpreters (`spawned`) map it by a file. All other pools count in the process of
the worker.
"""

from __future__ import annotations

import os
from typing import Any

from billiard import current_process
from celery import signals

from celery_pecker.worker.pools import kind_of, spawns
from throttle.exchange.process import this_process
from throttle.meter import meter
from throttle.worker.running import run_of

SPAWNED = "throttle.worker.spawned"
MEMORY = "CELERY_THROTTLE_MEMORY"
"""Environment variable by which fresh interpreters of a pool find their worker."""
SPARE = 8
"""Places for children that `pool_grow` adds to a running worker."""


def prepare(worker: Any) -> None:
    """Number the runs of tasks, and make places in which children count.

    Before the pool starts.
    """
    rows = max(worker.max_concurrency or 0, worker.concurrency) + SPARE
    if kind_of(worker.pool_cls) == "prefork" and spawns(worker):
        meter.share(rows, variable=MEMORY)
        worker.app.conf.include = (*worker.app.conf.include, SPAWNED)
    else:
        meter.share(rows)
    parent = os.getpid()

    def enter(**_: object) -> None:
        if os.getpid() != parent:  # the solo pool says so in the worker itself
            meter.enter(current_process().index)  # type: ignore[attr-defined]

    signals.worker_process_init.connect(
        enter, dispatch_uid="throttle.worker.pool", weak=False
    )
    tell_runs_apart()


def enter_spawned(**_: object) -> None:
    """This fresh interpreter is a child of its worker, which reads what it counts."""
    if meter.join(MEMORY):
        this_process.become_child()
        meter.enter(current_process().index)  # type: ignore[attr-defined]
        tell_runs_apart()


def tell_runs_apart() -> None:
    """What is counted from now on is the cost of the run that does it."""
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
