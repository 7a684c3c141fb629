"""The long form of the chaos of sharded jobs: a thousand kills, a report, an exit code.

    python -m tests.chaos.sharding.long_run [--kills 1000] [--seed N] [--report FILE] …

Runs on embedded servers, or on those of ``--dsn`` and ``--broker``. It takes about two
seconds a kill.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis, eventually
from tests.chaos.sharding.blows import RANDOM, Blows
from tests.chaos.sharding.judging import OPEN, Verdict, judge
from tests.chaos.sharding.stand import Stand
from tests.chaos.sharding.tables import ask
from tests.services import PostgresStand

QUIET_WITHIN = 90.0
"""Seconds in which all jobs have ended after the last kill."""


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--dsn", help="a PostgreSQL that may be given new databases")
    parser.add_argument("--broker", help="URL of a Redis or RabbitMQ")
    parser.add_argument("--report", type=Path, help="write the report there too")
    return parser.parse_args()


def storm(stand: Stand, blows: Blows, kills: int, seconds: float) -> Verdict:
    """Return the verdict after so many kills, or so many seconds of them."""
    blows.run(kills, SYSTEM.monotonic() + seconds)
    for caller in stand.of("caller"):
        caller.process.kill()
    settle(stand)
    return judge(stand.dsn, groups=blows.groups(), pids=blows.pids())


def settle(stand: Stand) -> None:
    """All jobs have ended and what follows them was sent, or the time is over."""
    end = SYSTEM.monotonic() + QUIET_WITHIN

    def quiet() -> bool:
        [[jobs]] = ask(stand.dsn, OPEN)
        return not jobs or SYSTEM.monotonic() > end

    eventually(quiet, QUIET_WITHIN + 10.0, "all is quiet", interval=0.2)
    stand.collect()


def told(blows: Blows, verdict: Verdict, took: float) -> list[str]:
    """Return the report."""
    aimed = [one for one in blows.events if one.window != RANDOM]
    roles = Counter(one.role for one in blows.events)
    alone = sum(not one.group for one in blows.events)
    windows = Counter(f"{one.role}: {one.window}" for one in aimed)
    kinds = ", ".join(f"{n} of {role}" for role, n in sorted(roles.items()))
    stands = "FAILS" if verdict.wrong else "stands"
    kills = f"{len(blows.events)} kills ({kinds}; {alone} of one process)"
    orders = f"{len(aimed)} aimed, {len(blows.missed)} orders nobody passed"
    return [
        f"seed {blows.seed}: {stands}: {kills}, {orders}; {took:.0f} s",
        *verdict.lines(),
        *(f"  {count} x {window}" for window, count in sorted(windows.items())),
    ]


def main() -> int:
    """Run, print, write; 0 if the promise held."""
    asked = arguments()
    began = SYSTEM.monotonic()
    with ExitStack() as stack:
        server = asked.dsn or stack.enter_context(EmbeddedPostgres()).dsn
        postgres = PostgresStand(server)
        stack.callback(postgres.close)
        dsn = stack.enter_context(postgres.fresh(migrated=False))
        migrate(dsn, schema="public")
        redis = stack.enter_context(EmbeddedRedis()).url
        stand = stack.enter_context(
            Stand(
                dsn=dsn,
                broker_url=asked.broker or redis,
                backend_url=redis,
                queue=f"sharding-chaos-{secrets.token_hex(6)}",
            )
        )
        blows = Blows(stand, asked.seed)
        verdict = storm(stand, blows, asked.kills, seconds=float("inf"))
    text = "\n".join(told(blows, verdict, SYSTEM.monotonic() - began)) + "\n"
    sys.stdout.write(text)
    if asked.report:
        asked.report.write_text(text)
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
