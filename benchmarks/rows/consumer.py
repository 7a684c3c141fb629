"""What counting itself adds: messages that say when they were sent.

The instant sent holds the push as well; the instant at which Redis answered the push
is the better measure, and may lie after that at which the consumer saw it.
"""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlsplit

import numpy as np

from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread
from benchmarks.schedules.trial import Trial

ROW = "consumer"
PUSHES = 40
MARK = b"0000-00-00T00:00:00.000000+00:00"
"""As long as an instant."""


def run(run: Run) -> None:
    """Measure the consumer with single messages and with a thousand at once."""
    for size in (1, 1000):
        run.trial(ROW, f"{size} at once", 3, partial(measure, run, size), size=size)


def measure(run: Run, size: int) -> Sample:
    """Return how late the consumer saw what was pushed."""
    parts = urlsplit(run.servers.redis)
    place = (parts.hostname or "127.0.0.1", parts.port or 6379)
    answered = []
    with Trial(run.servers) as trial, socket.create_connection(place) as wire:
        words = [b"LPUSH", trial.name.encode(), *([_message(MARK)] * size)]
        command = b"".join(b"$%d\r\n%s\r\n" % (len(one), one) for one in words)
        pieces = (b"*%d\r\n%s" % (len(words), command)).split(MARK)
        if parts.password:
            wire.sendall(f"AUTH {parts.password}\r\n".encode())
            wire.recv(64)
        for _ in range(PUSHES):
            time.sleep(0.07)
            now = datetime.now(UTC).isoformat(timespec="microseconds")
            wire.sendall(now.encode().join(pieces))
            wire.recv(64)
            answered.append(time.time())
        time.sleep(0.2)
        arrivals = trial.count()
    seen = np.unique(arrivals.due) + arrivals.last_of_each()
    return {
        "since_sent_ms": spread(arrivals.last_of_each(), scale=1e3),
        "since_pushed_ms": spread(seen - answered, scale=1e3),
    }


def _message(stamp: bytes) -> bytes:
    return b'{"argsrepr": "[0]", "due_at": "%s", "body": "%s"}' % (stamp, b"x" * 900)
