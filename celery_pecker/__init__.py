"""Rows held on a lease: Celery schedules that keep their pace whatever dies.

Everything that must not get stuck is a row that a process holds on a lease. A schedule
is a row that comes due again and again. Nothing elects a leader: every replica
competes for every slot, and any survivor keeps the pace.

Nouns
    *entry*    what a Celery app declares in ``beat_schedule``
    *slot*     one named instant of an entry: (schema, name, due_at, era); claimed at
               most once, however many replicas run
    *claim*    one conditional UPDATE that takes every due slot of a replica
    *epoch*    the fencing token that a claim raises; it never goes back
    *holder*   one process life of a replica
    *era*      raised when the database's clock was found to have stepped back
    *misfire*  a slot found late: skip, coalesce, catch up
    *run*      what a task does for a slot: dispatched to any worker, or local in the
               worker that won; within its deadline, and fenced by its epoch

Which clock decides
    when a slot is due and which replica won it: PostgreSQL's, in one statement. The
    monotonic clock of a replica only makes it stop earlier. The broker carries
    messages; no guarantee depends on one of them.

Under failure
    a replica dies or freezes      the others win its slots from the next one on
    it dies between claim and      at most once: that slot is lost; at least once: it is
    publish                        published again with the same task id
    PostgreSQL is away             no slot is claimed; at its return the misfire policy
    the broker is away             no slot is claimed by a replica that cannot reach it
    the database's clock steps     back: the era rises and claiming goes on

Not promised
    that a task without a timeout runs exactly once (Celery delivers its message), that
    a lost slot of an at-most-once entry is made up for, an order between entries, that
    code that cannot be interrupted ends at its deadline.

Where things are
    decide and claim     ``schedules/`` (declared, stored, claimed, run in the winner,
                         their history)
    send                 ``brokers/``, ``outbox/`` (what a transaction recorded)
    run                  ``runs/`` (which run may start and write), ``deadline/`` (for
                         how long), ``observers/`` (what runs for months), ``tasks``
    gather               ``batches/`` (the items of many callers in one call)
    edges to Celery      ``beat``, ``worker/``, ``bridge``
    what people see      ``surfaces/`` (commands, Flower, metrics), ``django/``,
                         ``alarms/``, ``heartbeat``
    under all of it      ``kernel/`` (lease, clock, loop, database, SQL, user code)
    for your tests too   ``testing/``

The invariants have numbers (I1 …): see docs/maintainers/invariants.md.
"""

from typing import TYPE_CHECKING

from celery_pecker.kernel.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    LeaseLost,
    Misconfigured,
    Overtaken,
    PeckerError,
    PublishUncertain,
    SchemaOutdated,
)
from celery_pecker.kernel.gate import Gate
from celery_pecker.kernel.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from celery_pecker import deadline as deadline  # a public name
    from celery_pecker.deadline import DeadlineExceeded
    from celery_pecker.runs import Run
    from celery_pecker.runs import current as current_run
    from celery_pecker.schedules.engine.model import Delivery, Misfire, RunMode
    from celery_pecker.tasks import Pecker, ScheduledTask

__all__ = [  # noqa: RUF022  # grouped for the reader
    # a task and its schedule in one place
    "Pecker",
    "ScheduledTask",
    # policies of an entry
    "Delivery",
    "Misfire",
    "RunMode",
    # which run this code is in
    "Run",
    "current_run",
    # what may hold entries back
    "Gate",
    # errors, by what to do about them
    "PeckerError",
    "Misconfigured",
    "SchemaOutdated",
    "LeaseLost",
    "Overtaken",
    "DeadlineExceeded",
    "DatabaseUnavailable",
    "BrokerUnavailable",
    "PublishUncertain",
    "version",
]


def version() -> str:
    """Return the version of the installed distribution."""
    from importlib import metadata  # noqa: PLC0415  # 3 MB that few need

    return metadata.version("celery-pecker")


__getattr__, __dir__ = _lazy_names(
    globals(),
    {
        "tasks": "Pecker ScheduledTask",
        "runs": "Run current:current_run",
        "schedules.engine.model": "Delivery Misfire RunMode",
        "deadline": "DeadlineExceeded deadline",
    },
)
