"""A deadline that everything in a run obeys.

    with deadline.within(0.8):
        connection.execute(…)      # waits for what is left, then raises
        for row in rows:
            deadline.check()       # raises DeadlineExceeded

Asking
    ``remaining()``  seconds left, None without a deadline
    ``check()``      raises when it is over, each time
    ``timeout(5)``   what the next call may wait: 5 s, or less if less is left
    ``at()``         the monotonic instant

Setting
    ``within(s)``    the earlier of the outer deadline and this one; nests
    ``until(at)``    the same, for time that began to run before
    ``shield(s)``    this much for a clean-up after the end
    ``detached()``   none at all, for work that is not of this run

Carrying
    ``wrap(fn)``, ``Executor``   into threads, which inherit nothing by themselves
    ``run(coro)``                into asyncio; ``async with within(…)``

Ending
    ``enforce(pool)``     interrupts the code of a run, as its pool allows
    ``deadline.clients``  psycopg, SQLAlchemy, Django, redis, requests, httpx; each
                          installed by hand

What it cannot do
    stop a C call that holds the GIL, a name lookup, a thread that never checks.
    docs/explanation/deadlines.md says where code can be interrupted, and where not.
"""

from celery_pecker.deadline.budget import (
    DeadlineExceeded,
    at,
    check,
    remaining,
    timeout,
)
from celery_pecker.deadline.enforcement import enforce
from celery_pecker.deadline.scopes import Scope, detached, run, shield, until, within
from celery_pecker.deadline.threads import Executor, wrap

__all__ = [  # noqa: RUF022  # grouped for the reader
    # asking
    "remaining",
    "check",
    "timeout",
    "at",
    "DeadlineExceeded",
    # setting
    "within",
    "until",
    "shield",
    "detached",
    "Scope",
    # carrying
    "wrap",
    "Executor",
    "run",
    # ending
    "enforce",
]
