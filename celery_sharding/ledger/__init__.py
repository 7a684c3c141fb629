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

from __future__ import annotations

from celery_sharding.ledger.per_thread import Ledger, at, ledger_of_thread

__all__ = ["Ledger", "at", "ledger_of_thread"]
