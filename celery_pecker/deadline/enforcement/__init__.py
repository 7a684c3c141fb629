"""How each kind of pool ends a run at its deadline.

    prefork, solo    an interval timer and SIGALRM, in the main thread; a child that
                     does not come back can be killed (`hard`)
    gevent           a timer of the hub throws into the greenlet
    threads          cooperative: clients, `check()`; or, asked for (`interrupt`), an
                     exception put into the thread between two bytecodes
    anything else    cooperative

Asyncio has its own way: `async with deadline.within(…)`.
"""

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from threading import current_thread, main_thread

from celery_pecker.deadline.budget import seconds_of
from celery_pecker.deadline.enforcement.alarm import Alarm
from celery_pecker.deadline.enforcement.interrupts import ThreadInterrupter
from celery_pecker.deadline.enforcement.watchdog import ProcessKiller

ALARMED = frozenset({"prefork", "processes", "solo"})


def enforce(
    kind: str,
    *,
    interrupt: bool = False,
    hard: float | timedelta | None = None,
) -> AbstractContextManager[object]:
    """End the block when the deadline in force is over, as the pool allows.

    `kind` is Celery's word for the pool. `interrupt` lets a thread of the pool
    `threads` be interrupted between two bytecodes. `hard` kills the process if the
    block has not ended this many seconds after the deadline: for children of
    `prefork`, which are replaced.

    Code that does not run in the main thread where that is needed, or in a pool that
    knows no way, is bounded by its clients and by `check()`. Run the block in a copy of
    the context (`contextvars.copy_context().run`), so that nothing of it can stay
    behind in the thread, wherever it is interrupted.
    """
    grace = None if hard is None else seconds_of(hard, "enforce(hard)")
    if kind in ALARMED:
        killer = None if grace is None else ProcessKiller(grace)
        if current_thread() is main_thread():
            return Alarm(killer)
        return killer or nullcontext()
    if kind == "gevent":
        # gevent patches what it is loaded beside; only its own pool loads it
        from celery_pecker.deadline.enforcement.greenlets import (  # noqa: PLC0415
            GreenletInterrupter,
        )

        return GreenletInterrupter()
    if kind == "threads" and interrupt:
        return ThreadInterrupter()
    return nullcontext()
