"""The guards of what is seen of observers, and of what people do to them."""

from __future__ import annotations

from tests.guards.guard import Guard

SEEN = "celery_pecker/kernel/sql/observers_seen.sql"
FIGURES = "tests/integration/metrics/test_observers.py"
COMMANDS = "tests/integration/cli/test_observers.py"
REMOTE = "tests/integration/worker/test_remote_control_observers.py"

GUARDS = (
    Guard(
        "observers seen: one that is tried later does not wait yet",
        SEEN,
        "               and o.not_before <= clock.now)::float8",
        "               )::float8",
        f"{FIGURES}::test_one_that_is_tried_later_does_not_wait_yet",
    ),
    Guard(
        "observers seen: a table is counted once in some seconds, whoever scrapes",
        "celery_pecker/surfaces/metrics/measures.py",
        "now - self._read_at < self._fresh",
        "now - self._read_at < 0.0",
        f"{FIGURES}::test_a_busy_scraper_reads_the_table_every_few_seconds",
    ),
    Guard(
        "observers seen: many kinds make no series of their own",
        "celery_pecker/surfaces/views/observers.py",
        "few = len(summary.kinds) <= MOST_KINDS",
        "few = bool(summary.kinds)",
        f"{FIGURES}::test_too_many_kinds_are_counted_together",
    ),
    Guard(
        "observers seen: what needs a look stands first",
        SEEN,
        "order by c.rank nulls last, o.name",
        "order by o.name",
        f"{COMMANDS}::test_hosts_have_bars_and_what_needs_a_look_stands_first",
    ),
    Guard(
        "observers seen: an unknown host is refused with those that there are",
        "celery_pecker/surfaces/cli/observers_actions.py",
        "    if not count:\n",
        "    if False:\n",
        f"{COMMANDS}::test_a_host_is_drained_and_takes_observers_again",
    ),
    Guard(
        "observers seen: a parked one is not healthy",
        "celery_pecker/surfaces/cli/observers_health.py",
        "    if parked:\n",
        "    if False:\n",
        f"{COMMANDS}::test_health_says_who_is_not_run",
    ),
    Guard(
        "observers seen: a search is for text, not for a pattern",
        SEEN,
        "strpos(lower(o.name), lower(%(search)s::text)) > 0",
        "o.name ilike '%%' || %(search)s::text || '%%'",
        f"{FIGURES}::test_a_search_is_for_text",
    ),
    Guard(
        "observers seen: a worker drains its own hosts alone",
        "celery_pecker/worker/remote_control_observers.py",
        "order(database, node) for node in nodes",
        "order(database, one.node) for one in __import__("
        '"celery_pecker.observers.overview", fromlist=["Overview"])'
        ".Overview(database).hosts()",
        f"{REMOTE}::test_the_hosts_of_one_worker_are_drained",
    ),
    Guard(
        "observers seen: what cannot be sent is not healthy",
        "celery_pecker/surfaces/cli/observers_health.py",
        "    if unsent.oldest is not None and unsent.oldest > within:\n",
        "    if unsent.oldest is not None and unsent.oldest < 0:\n",
        f"{COMMANDS}::test_signatures_that_cannot_be_sent_are_shown",
    ),
    Guard(
        "observers seen: what was not tried yet has not failed",
        SEEN,
        "    where n.last_error is not null\n",
        "",
        f"{COMMANDS}::test_signatures_that_cannot_be_sent_are_shown",
    ),
)
