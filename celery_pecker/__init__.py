"""Rows held on a lease: Celery schedules that keep their pace whatever dies.

Everything that must not get stuck is a row that somebody holds on a lease. A schedule
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

Who is the authority
    for time, and for who won: PostgreSQL, in one statement. The monotonic clock of a
    replica only makes it give up earlier. The broker carries messages; none of them is
    load-bearing.

Under failure
    a replica dies or freezes      the others win its slots from the next one on
    it dies between claim and      at most once: that slot is lost; at least once: it is
    publish                        published again with the same task id
    PostgreSQL is away             no slot is claimed; at its return the misfire policy
    the broker is away             no slot is claimed by those who cannot reach it
    the database's clock steps     back: the era rises and claiming goes on

Not promised
    that a task runs exactly once (Celery delivers its message), that a lost slot of an
    at-most-once entry is made up for, an order between entries.

Where things are: ``schedules/`` decides and claims; ``publisher/`` puts messages on
the wire; ``beat``, ``worker``, ``cli`` are the edges to Celery and people;
``testing/`` is for your tests too. The invariants have numbers (I1 …), told in
docs/explanation/invariants.md.
"""

from importlib.metadata import version as _version

from celery_pecker.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    LeaseLost,
    Misconfigured,
    PeckerError,
    PublishUncertain,
    SchemaOutdated,
)
from celery_pecker.gate import Gate
from celery_pecker.schedules.model import Delivery, Misfire

__all__ = [  # noqa: RUF022  # grouped for the reader
    # policies of an entry
    "Delivery",
    "Misfire",
    # what may hold entries back
    "Gate",
    # errors, by what to do about them
    "PeckerError",
    "Misconfigured",
    "SchemaOutdated",
    "LeaseLost",
    "DatabaseUnavailable",
    "BrokerUnavailable",
    "PublishUncertain",
    "version",
]


def version() -> str:
    """Return the version of the installed distribution."""
    return _version("celery-pecker")
