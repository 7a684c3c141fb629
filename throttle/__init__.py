"""A gate before the pool slot: a rush of tasks does not bring a database down.

One question and one answer: may this task touch that database now, and if not, when.
Processes count what they do to each database, Redis adds it up by its own clock, and a
worker holds a task back, before it takes a slot of the pool, as long as its share of
the database's limit is used up: no retry, no message, no slot is spent on waiting.

Nouns
    *meter*      counts statements, their seconds and rows, by database
    *window*     what all processes counted within a second, in Redis
    *traffic*    what a database gets per second, computed from the windows by an
    estimator
    *limit*      what it bears per second
    *share*      a worker's part of the limit; the parts never add up to more than it
    *cost*       what a run of a task does to its database, learned by task and tenant
    *admission*  the answer of a gate: yes, or when to retry
    *hold*       a task waits in its worker, unacknowledged; others pass
    *parking*    where messages wait when a worker holds as many as it may
    *route*      from a task to its database and tenant

Under failure
    Redis is away          the policy of the limit: open, closed, or safe (half of the
                           last share, counted by each worker alone)
    the broker is away     what is held goes back to its queue, once
    a worker dies          its share is the others' after a second; what it held is
                           redelivered by the broker
    a route fails          the task passes; it is counted and logged

Not promised
    that a database never sees more than its limit: what is not metered is not seen, a
    task of a new kind costs what it costs, and one task may be larger than a limit.

Where things are
    count                ``instrument/``, ``meter/``
    add up, estimate     ``units``, ``limits`` (pure), ``store/`` (Redis, the service)
    tell and hear        ``exchange/``: one thread per process, every 100 ms
    decide               ``admission/`` (pure): costs, shares, policies
    hold                 ``hold`` (pure), ``worker/`` (Celery's consumer)
    ask                  ``gate/``: for dispatchers and for Pecker's schedules
    second signal        ``watch/``: PostgreSQL's own word
    what people see      ``cli/``, ``metrics``, ``findings``, ``flower/``, ``chart``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_pecker.kernel.lazy_names import lazy_names

if TYPE_CHECKING:
    from throttle import instrument
    from throttle.app import Throttle
    from throttle.exchange.process import report
    from throttle.gate import Gate

__all__ = ["Gate", "Throttle", "instrument", "report"]
# Counting alone does not load Celery; without a database no driver is loaded.
__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "gate": "Gate",
        "app": "Throttle",
        "instrument": "instrument",
        "exchange.process": "report",
    },
)
