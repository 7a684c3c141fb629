"""The main function of ``pecker observe`` once it is known which hosts to run.

It reads on its standard input what each host is started with. Loading neither the app
nor Celery it is small, and stays so for as long as its hosts live.
"""

import json
import logging
import os
import signal
import sys
from types import FrameType

from celery_pecker.observers.hosts.supervised_hosts import (
    SupervisedHost,
    SupervisedHosts,
)

GLANCE = 0.2
"""Seconds between two looks at whether hosts have ended."""
FORMAT = "[%(asctime)s: %(levelname)s/%(processName)s] %(message)s"


def main() -> None:
    """Run hosts until a signal; a second one ends them at once."""
    configs = json.load(sys.stdin)
    logging.basicConfig(format=FORMAT, level=configs[0]["loglevel"].upper())
    hosts = SupervisedHosts([SupervisedHost(one) for one in configs])
    asked = 0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        del number, frame
        asked += 1
        if asked == 1:
            hosts.stop()
        else:
            hosts.kill()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    hosts.start()
    while not hosts.join(GLANCE):
        if hosts.failed:
            hosts.stop()
    logging.shutdown()
    # Threads that hear hosts are daemons; nothing is left to be closed.
    os._exit(int(hosts.failed))


if __name__ == "__main__":
    main()
