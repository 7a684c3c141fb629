"""The guards of what is seen of observers, and of what people do to them."""

from __future__ import annotations

from tests.guards.guard import Guard

FIGURES = "tests/integration/metrics/test_observers.py"
COMMANDS = "tests/integration/cli/test_observers.py"
REMOTE = "tests/integration/worker/test_remote_control_observers.py"

GUARDS = (
    Guard(
        "observers seen: a table is counted once in some seconds, whoever scrapes",
        "ended + self.fresh + self.spared",
        "ended + self.spared",
        f"{FIGURES}::test_a_busy_scraper_reads_the_table_every_few_seconds",
    ),
    Guard(
        "observers seen: many kinds make no series of their own",
        "few = len(summary.kinds) <= MOST_KINDS",
        "few = bool(summary.kinds)",
        f"{FIGURES}::test_too_many_kinds_are_counted_together",
    ),
    Guard(
        "observers seen: a parked one is not healthy",
        "    if parked:\n",
        "    if False:\n",
        f"{COMMANDS}::test_health_says_who_is_not_run",
    ),
    Guard(
        "observers seen: a worker drains its own hosts alone",
        "order(database, node) for node in nodes",
        "order(database, one.node) for one in __import__("
        '"celery_pecker.observers.overview", fromlist=["Overview"])'
        ".Overview(database).hosts()",
        f"{REMOTE}::test_the_hosts_of_one_worker_are_drained",
    ),
    Guard(
        "observers seen: what cannot be sent is not healthy",
        "    if unsent.oldest is not None and unsent.oldest > within:\n",
        "    if unsent.oldest is not None and unsent.oldest < 0:\n",
        f"{COMMANDS}::test_signatures_that_cannot_be_sent_are_shown",
    ),
)
