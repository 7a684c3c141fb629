"""The long form of the outbox's chaos test: a thousand events, a report, an exit code.

    python -m tests.chaos.outbox.long_run [--events 1000] [--seed N] [--broker rabbitmq]
        [--runs] [--standby]

On embedded servers and, if asked for, a RabbitMQ. With ``--runs`` workers run rows that
live until they are done, by message and without; with ``--standby`` the database fails
over to a synchronous standby, too.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests import services
from tests.chaos.outbox.events import events
from tests.chaos.outbox.oracle import wrong
from tests.chaos.outbox.playing import run
from tests.chaos.outbox.stand import Stand


def main() -> int:
    """Run and print; 0 if each row is accounted for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--broker", choices=["redis", "rabbitmq"], default="redis")
    parser.add_argument("--runs", action="store_true")
    parser.add_argument("--standby", action="store_true")
    asked = parser.parse_args()
    kinds = {"runs": asked.runs, "standby": asked.standby}
    happening = [*events(asked.events, seed=asked.seed, **kinds)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = ""
        if asked.broker == "rabbitmq":
            url = services.GIVEN_AMQP or stack.enter_context(
                services.own_vhost(services.LOCAL_AMQP)
            )
        stand = Stand(folder, amqp_url=url, **kinds)
        stack.callback(stand.close)
        verdict = run(stand, happening, sys.stderr.write)
    sys.stdout.write(f"{asked}\n")
    for kind, count in sorted(Counter(map(str, happening)).items()):
        sys.stdout.write(f"  {count:5} {kind}\n")
    sys.stdout.write(f"  {stand.missed_aims:5} aims missed: nothing was due there\n")
    for name, value in verdict.items():
        shown = len(value) if isinstance(value, (list, dict)) else value
        sys.stdout.write(f"{name}: {shown}\n")
        if name in wrong(verdict):
            sys.stdout.write(f"    {str(value)[:2_000]}\n")
    return int(bool(wrong(verdict)))


if __name__ == "__main__":
    sys.exit(main())
