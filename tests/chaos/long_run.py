"""The long form of the chaos test: ten thousand slots, a report, an exit code.

    python -m tests.chaos.long_run [--slots 10000] [--entries 20] [--seed N] …

Runs on embedded servers, or on those of ``--dsn`` and ``--broker``. It is no test: it
takes a quarter of an hour, and its gaps are figures of the machine that it runs on.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from contextlib import ExitStack
from pathlib import Path

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis
from tests.chaos import report
from tests.chaos.cluster import Cluster
from tests.chaos.driver import Chaos
from tests.services import PostgresStand

REPLICAS = 3
GAP = 1.25
"""Promised from one message to the next under kills and freezes …"""
LOST_GAP = 2.25
"""… and after a slot that was claimed and not published."""


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=10_000)
    parser.add_argument("--entries", type=int, default=20)
    parser.add_argument("--period", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--dsn", help="a PostgreSQL that may be given new databases")
    parser.add_argument("--broker", help="URL of a Redis or RabbitMQ")
    parser.add_argument("--report", type=Path, help="write the report there too")
    return parser.parse_args()


def run(asked: argparse.Namespace, stack: ExitStack) -> tuple[list[str], bool]:
    """Return the report of a run, and whether it stands."""
    server = asked.dsn or stack.enter_context(EmbeddedPostgres()).dsn
    stand = PostgresStand(server)
    stack.callback(stand.close)
    dsn = stack.enter_context(stand.fresh(migrated=False))
    migrate(dsn, schema="public")
    broker = asked.broker or stack.enter_context(EmbeddedRedis()).url
    cluster = stack.enter_context(
        Cluster(
            dsn=dsn,
            broker_url=broker,
            queue=f"pecker-chaos-{secrets.token_hex(6)}",
            entries=asked.entries,
            period=asked.period,
        )
    )
    cluster.replicas(REPLICAS)
    since = cluster.await_slot(cluster.now)
    until = since + asked.slots / asked.entries * asked.period
    chaos = Chaos(cluster.beats, cluster.recorder, seed=asked.seed, period=asked.period)
    chaos.run(until)
    verdict = cluster.verdict(since, until, chaos.events)
    title = f"{asked.entries} entries, {REPLICAS} replicas, seed {asked.seed}"
    told = report.lines(title, verdict)
    extra = asked.period - 1.0
    slow = [
        f"  SLOWER THAN PROMISED, {cause}: {gap.seconds:.2f} s ({gap.name})"
        for cause, gap in verdict.gaps.items()
        if gap.seconds > extra + (LOST_GAP if "lost" in cause else GAP)
    ]
    return told + slow, verdict.stands


def main() -> int:
    """Run, print, write; 0 if no slot was doubled or lost without a cause."""
    asked = arguments()
    began = SYSTEM.monotonic()
    with ExitStack() as stack:
        told, stands = run(asked, stack)
    told.append(f"  took {SYSTEM.monotonic() - began:.0f} s")
    text = "\n".join(told) + "\n"
    sys.stdout.write(text)
    if asked.report:
        asked.report.write_text(text)
    return 0 if stands else 1


if __name__ == "__main__":
    sys.exit(main())
