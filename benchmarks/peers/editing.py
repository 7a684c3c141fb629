"""Changes entries while a scheduler runs: ``python -m benchmarks.peers.editing``.

``ADDS``  so many times an entry of every tenth of a second is added, lives a while, and
          is removed, one at a time; ``FILE`` says when each was there and when gone.
``RATE``  so many changes a second for ``SECONDS``, one entry after the other, from four
          threads, ``BATCH`` of them in one call; how many were made is written to
          ``FILE``.
"""

from __future__ import annotations

import json
import random
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.environment import given
from benchmarks.schedules.app import app

FIRST = 1_000_000
"""The number of the first entry that is added."""
PERIOD = 0.1
"""Seconds: the period of entries that are added."""
LIVES = 2.0
"""Seconds for which an entry that was added lives."""
RESTS = 1.5
"""Seconds between two of them, and up to one more: any phase of a look is hit."""
THREADS = 4


def add(peer: Any, adds: int) -> list[tuple[int, float, float]]:
    """Return the number of each entry, when it was there, and when it was gone."""
    chance = random.Random(1)
    made = []
    for number in range(FIRST, FIRST + adds):
        peer.put(app, number, PERIOD)
        there = time.time()
        time.sleep(LIVES)
        peer.remove(app, number)
        made.append((number, there, time.time()))
        time.sleep(RESTS + chance.random())
    return made


def change(peer: Any, rate: float, seconds: float, entries: int, batch: int) -> int:
    """Return how many changes were made."""
    counts = [0] * THREADS
    began = time.monotonic()

    def work(nth: int) -> None:
        while (spent := time.monotonic() - began) < seconds:
            made = counts[nth]
            ahead = made * THREADS / rate - spent
            if ahead > 0:
                time.sleep(ahead)
            numbers = [
                (nth + THREADS * one) % entries for one in range(made, made + batch)
            ]
            if batch > 1:
                peer.edit_many(app, numbers, made)
            else:
                peer.edit(app, numbers[0], made)
            counts[nth] += batch

    threads = [threading.Thread(target=work, args=(nth,)) for nth in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def main() -> None:
    """Do what the environment asks for."""
    peer = import_module(f"benchmarks.peers.{given('PEER')}")
    file = Path(given("FILE"))
    if given("ADDS"):
        file.write_text(json.dumps(add(peer, int(given("ADDS")))))
        return
    seconds = float(given("SECONDS"))
    entries, batch = int(given("ENTRIES")), int(given("BATCH", "1"))
    made = change(peer, float(given("RATE")), seconds, entries, batch)
    file.write_text(json.dumps({"edits": made, "seconds": seconds}))


if __name__ == "__main__":
    main()
