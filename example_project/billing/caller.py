"""A service that hangs up its calls: ``python -m example_project.billing.caller``."""

from __future__ import annotations

import argparse
import os
import signal

import psycopg

from celery_pecker.kernel.clock import pause
from example_project.billing.app import SERVICE_DSN
from example_project.billing.tasks import hang_up

PACE = 0.05
"""Seconds between two calls that end."""
READY = "caller: ready"


def main() -> None:
    """Hang up one call after the other, until something ends this process."""
    parser = argparse.ArgumentParser(prog="python -m example_project.billing.caller")
    parser.add_argument("name", help="whose calls they are")
    parser.add_argument(
        "--dies-after",
        type=int,
        default=0,
        metavar="CALLS",
        help="kill -9 right after the commit of so many calls (0: never)",
    )
    options = parser.parse_args()
    done = 0
    with psycopg.connect(SERVICE_DSN, autocommit=True) as connection:
        print(READY, flush=True)
        while True:
            if hang_up(connection, options.name) is not None:
                done += 1
                if done == options.dies_after:
                    os.kill(os.getpid(), signal.SIGKILL)
            pause(PACE)


if __name__ == "__main__":
    main()
