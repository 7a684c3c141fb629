"""The ledger: what is to run, has run, and which process may write.

    ledger = ledger_of_thread(settings)          # this thread's own
    ledger.submissions.submit(…)

Repositories
    ``submissions``  calls, and the items that they brought
    ``plans``        layers, shards, items and tickets of a job, written at once
    ``tickets``      the rights to run shards of a job
    ``shards``       what is claimed, and how far it is
    ``outcomes``     closing of layers and jobs; Post; what to report to Celery
    ``control``      pause, resume, cancel, concurrency; rerunning ended shards
    ``reading``      how things stand
    ``upkeep``       what a dead process left, live executors, the purge

Each change is a compare-and-set: it names the stage and the epoch that it starts from,
and says whether it took place. A connection belongs to one thread, and is made when it
is first needed.
"""

import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings
from celery_sharding.ledger.base import Repository
from celery_sharding.ledger.control import Control
from celery_sharding.ledger.outcomes import JobOutcomes
from celery_sharding.ledger.plans import Plans
from celery_sharding.ledger.reading import Reading
from celery_sharding.ledger.shards import Shards
from celery_sharding.ledger.submissions import Submissions
from celery_sharding.ledger.tickets import Tickets
from celery_sharding.ledger.upkeep import FRESH, LiveWorker, Upkeep


class AddressedTicket(NamedTuple):
    """A ticket that is to be published, and where."""

    ticket: int
    seq: int
    direct_queue: str | None
    """The queue of the worker whose shards wait; None: that of the job."""


class Placements(Repository):
    """Jobs with ``placement="even"``."""

    def serving(self, queues: Sequence[str] | None) -> list[LiveWorker]:
        """Return the live workers that consume from one of these queues, by name.

        None: it is not known which the job's are; then those of any.
        """
        return self._read(
            LiveWorker,
            "serving_executors",
            fresh=FRESH,
            queues=None if queues is None else [*queues],
        )

    def orphans(self, *, most: int = 100_000) -> dict[int, list[int]]:
        """Return the open shards, by job, whose worker is gone or has no queue now."""
        by_job: dict[int, list[int]] = {}
        for job, shard in self._run("orphaned_shards", fresh=FRESH, most=most):
            by_job.setdefault(job, []).append(shard)
        return by_job

    def deal(self, job: int, owners: Sequence[tuple[int, str | None]]) -> int:
        """Assign those shards to those workers, or to any (None); return how many."""
        return self._change(
            "deal_shards",
            job=job,
            shards=[shard for shard, _ in owners],
            owners=[owner for _, owner in owners],
        )

    def release_worker(self, job: int, hostname: str) -> int:
        """Free what was assigned to that worker; return how many shards."""
        return self._change("release_shards", job=job, hostname=hostname)

    def to_publish(
        self, job: int, *, slots: int | None, resend: float
    ) -> list[AddressedTicket]:
        """Return tickets that are to be published, each to a worker with open shards.

        As many as `Tickets.to_publish`; never to a worker that has none of its own.
        """
        return sorted(
            self._read(
                AddressedTicket,
                "tickets_to_publish_by_worker",
                job=job,
                slots=slots,
                resend=resend,
                fresh=FRESH,
            )
        )


PACKAGE = "celery_sharding"
"""Whose statements the ledger runs."""


class Ledger:
    """All repositories over one connection. Not for two threads at once."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.submissions = Submissions(database)
        """Calls, and the items that they brought."""
        self.plans = Plans(database)
        """Plans, and the leases of their planners."""
        self.placements = Placements(database)
        """Shards that belong to workers."""
        self.tickets = Tickets(database)
        """Rights to run shards of a job."""
        self.shards = Shards(database)
        """What is claimed, and how far it is."""
        self.outcomes = JobOutcomes(database)
        """Closing of layers and jobs, Post, and what to report to Celery."""
        self.control = Control(database)
        """What users may do to a job."""
        self.reading = Reading(database)
        """How things stand."""
        self.upkeep = Upkeep(database)
        """What a dead process left, live executors, and the purge."""

    def close(self) -> None:
        """Drop the connection, if there is one; the next statement makes another."""
        self.database.close()


class _Own(threading.local):
    """The ledgers of one thread, by whose and for what, and the process they are of."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.ledgers: dict[tuple[Settings, str], Ledger] = {}


_own = _Own()


def ledger_of_thread(settings: Settings, *, role: str = "runner") -> Ledger:
    """Return this thread's own ledger, not connected before it is first asked.

    After a fork the parent's connection is abandoned, not closed: both would use
    one socket, and each would get the other's answers.
    """
    if _own.process != os.getpid():
        for inherited in _own.ledgers.values():
            inherited.database.abandon()
        _own.ledgers = {}
        _own.process = os.getpid()
    ledger = _own.ledgers.get((settings, role))
    if ledger is None:
        ledger = Ledger(Database.of(settings, role=role, package=PACKAGE))
        weakref.finalize(ledger, _ended, ledger.database, os.getpid())
        _own.ledgers[settings, role] = ledger
    return ledger


def _ended(database: Database, process: int) -> None:
    """Close the connection of a thread that ended; abandon that of a parent.

    In a child the parent's other threads end when it is forked: theirs go on.
    """
    if process == os.getpid():
        database.close()
    else:
        database.abandon()


_settings: weakref.WeakKeyDictionary[Any, Settings] = weakref.WeakKeyDictionary()


def at(app: Any, *, role: str = "runner") -> Ledger:
    """Return this thread's own ledger of a Celery app; its settings are read once."""
    settings = _settings.get(app)
    if settings is None:
        settings = _settings[app] = Settings.read(app.conf, main=app.main)
    return ledger_of_thread(settings, role=role)
