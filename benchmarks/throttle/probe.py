"""What a worker's main process does, told from within: for rows that ask for it."""

from __future__ import annotations

import gc
import os
import struct
import time
from pathlib import Path
from typing import Any

from celery import Celery, bootsteps
from celery.worker.worker import WorkController

HANDED = struct.Struct("<d")
GAP = struct.Struct("<dd")
EVERY = 0.005
"""Seconds between two turns of the timer by which the loop's pauses are seen."""


def install(app: Celery, folder: Path) -> None:
    """Workers of the app write down what they hand to the pool, and when they pause.

    Without garbage collection: a full one walks Celery's heap for 100 ms, in any worker
    that fetches messages, and would be taken for a pause of ours.
    """
    gc.disable()
    _note_what_is_handed(os.open(folder / "handed", os.O_WRONLY | os.O_CREAT))
    gaps = os.open(folder / "gaps", os.O_WRONLY | os.O_CREAT)

    class Pulse(bootsteps.StartStopStep):
        """Says how long the loop was away from its timers."""

        requires = ("celery.worker.consumer.tasks:Tasks",)

        def start(self, parent: Any) -> None:
            """The timer turns."""
            last = [time.time()]

            def turn() -> None:
                now = time.time()
                os.write(gaps, GAP.pack(now, now - last[0] - EVERY))
                last[0] = now

            parent.timer.call_repeatedly(EVERY, turn)

    app.steps["consumer"].add(Pulse)


def _note_what_is_handed(file: int) -> None:
    """The moment at which a request goes to a prefork pool is written down."""
    controller: Any = WorkController  # its stubs lack what nothing else tells
    original = controller._process_task_sem  # noqa: SLF001 — as said

    def process(self: Any, request: Any) -> Any:
        os.write(file, HANDED.pack(time.time()))
        return original(self, request)

    controller._process_task_sem = process  # noqa: SLF001 — as above


def time_the_hook(folder: Path) -> None:
    """What the hook itself takes of the main process is written down at the end.

    The clock takes half a microsecond, and is asked four times: so a hook that does
    nothing is timed in the same way beside it, at each task, and taken off.
    """
    from throttle.worker.hook import Hook  # noqa: PLC0415 — only where it is asked for

    spent = {"hook": 0, "nothing": 0, "inside": 0, "tasks": 0}
    made, offer = Hook.__init__, Hook.offer
    clock = time.thread_time_ns

    def timed(through: Any) -> Any:
        def inside(request: Any) -> Any:
            began = clock()
            try:
                return through(request)
            finally:
                spent["inside"] += clock() - began

        return inside

    def around(what: str, call: Any, *args: Any) -> None:
        before, began = spent["inside"], clock()
        call(*args)
        spent[what] += clock() - began - (spent["inside"] - before)

    nothing = timed(lambda _: None)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        self._through = timed(self._through)

    def timed_offer(self: Any, request: Any) -> None:
        around("nothing", nothing, request)
        around("hook", offer, self, request)
        spent["tasks"] += 1
        if spent["tasks"] % 100 == 0:
            took = (spent["hook"] - spent["nothing"]) / spent["tasks"]
            (folder / "hook").write_text(str(took))

    Hook.__init__ = init  # type: ignore[method-assign]
    Hook.offer = timed_offer  # type: ignore[method-assign]
