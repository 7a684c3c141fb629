"""The long form of the outbox's chaos test: a thousand events, a report, an exit code.

    python -m tests.chaos.outbox.long_run [--events 1000] [--seed N] [--amqp URL]

On embedded servers; with ``--amqp`` on that RabbitMQ instead of Redis.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis
from tests.chaos.outbox.events import events
from tests.chaos.outbox.stand import Stand, run

WRONG = ("lost", "made up", "doubled", "crashed", "held")


def main() -> int:
    """Run and print; 0 if each row is accounted for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--amqp", help="URL of a RabbitMQ")
    asked = parser.parse_args()
    happening = [*events(asked.events, seed=asked.seed, own_broker=asked.amqp is None)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = stack.enter_context(EmbeddedPostgres())
        if asked.amqp is None:
            settings = {"appendfsync": "always"}
            redis = stack.enter_context(EmbeddedRedis(settings=settings))
            stand = Stand(folder, postgres, redis=redis)
        else:
            stand = Stand(folder, postgres, amqp_url=asked.amqp)
        stack.callback(stand.close)
        verdict = run(stand, happening, sys.stderr.write)
    sys.stdout.write(f"seed {asked.seed}: {asked.events} events\n")
    for kind, count in sorted(Counter(map(str, happening)).items()):
        sys.stdout.write(f"  {count:5} {kind}\n")
    sys.stdout.write(f"  {stand.missed_aims:5} aims missed: nothing was due there\n")
    for name, value in verdict.items():
        shown = len(value) if isinstance(value, (list, dict)) else value
        sys.stdout.write(f"{name}: {shown}\n")
    return int(any(verdict[wrong] for wrong in WRONG))


if __name__ == "__main__":
    sys.exit(main())
