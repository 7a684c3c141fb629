"""Where the time of a wake-up goes: exact timers around what is done once a batch.

A profiler that hooks each call would make Python's calls look dear; one that looks
from another thread sees a thread where it gives up the interpreter's lock, which
makes each small system call look dear (`uuid4` seemed to take twenty times its
time). What is timed here is called once for up to a thousand slots, so that the timers
themselves cost nothing, and each function's own time is told without that of the
timed ones that it calls.
"""

from __future__ import annotations

import atexit
import json
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

WARM = 3
"""Wake-ups with slots that are not counted: the first builds all messages."""
STEP = "schedules.service:Service.step"
PHASES = {
    STEP: "loop, beliefs about entries, log line",
    "schedules.agenda:Agenda.due": "find what is due",
    "schedules.service:Service._sort": "turn wins into slots, plan the next wake-up",
    "schedules.repository:Repository.claim": "claim: lists of parameters, rows to wins",
    "kernel.bounded_connection:BoundedConnection.wait": "claim: PostgreSQL's work",
    "schedules.sending:Sending._send": "name each message (task id, header)",
    "publisher.publisher:Publisher.publish": "look up the entries' messages",
    "publisher.redis_lane:RedisLane._push": "write each message into its template",
    "publisher.redis_script:RedisScript._ask": "push: pack, Redis's work",
    "publisher.slow_lane:SlowLane.send": "Celery's apply_async, kombu's batch",
    "schedules.upkeep:Upkeep.go": "upkeep, each five seconds",
}


class Timers:
    """Counts the own time of functions that call one another, on one thread."""

    def __init__(self) -> None:
        self.own: Counter[str] = Counter()
        self.wakes = 0
        self.since = 0.0
        """The instant from which on the time counts, by the host's clock."""
        self.missing: list[str] = []
        self._open: list[int] = []
        """What the calls that are open have spent in calls of theirs, in ns."""

    def around(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a timer around it."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            if phase != PHASES[STEP] and not self._open:
                return function(*args, **kwargs)  # not within a step
            began = time.perf_counter_ns()
            self._open.append(0)
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.perf_counter_ns() - began
                self.own[phase] += spent - self._open.pop()
                if self._open:
                    self._open[-1] += spent
                else:
                    self._stepped()

        return timed

    def _stepped(self) -> None:
        if not self.own.get(PHASES["schedules.sending:Sending._send"]):
            self.own.clear()  # still warming up, and nothing was won
            return
        self.wakes += 1
        if self.wakes == WARM:
            self.own.clear()
            self.since = time.time()

    def save(self, path: Path) -> None:
        """The counts are in the file, as JSON."""
        found = {
            "wakes": self.wakes - WARM,
            "since": self.since,
            "own_ns": dict(self.own.most_common()),
            "missing": self.missing,
        }
        path.write_text(json.dumps(found))


def install(path: str) -> None:
    """The steps of this process's scheduler are timed; the counts saved at exit."""
    timers = Timers()
    for place, phase in PHASES.items():
        module, _, name = place.partition(":")
        owner, _, method = name.partition(".")
        try:
            kind = getattr(import_module(f"celery_pecker.{module}"), owner)
            function = getattr(kind, method)
        except (ImportError, AttributeError):
            # its time is in its caller's; the report says so
            timers.missing.append(place)
            continue
        setattr(kind, method, timers.around(phase, function))
    atexit.register(timers.save, Path(path))
