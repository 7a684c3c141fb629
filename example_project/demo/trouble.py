"""Seeded faults of room agents and equipment, and how soon they are noticed."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import Self

import psycopg

from celery_pecker.kernel.clock import SYSTEM, Clock
from example_project.parts.control import Control
from example_project.parts.fault import Fault
from example_project.store import Store

EVERY = 1.5
"""Seconds between two faults."""
LASTS = 12.0
"""Seconds until a part is well again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A part that is wrong, until when by the monotonic clock."""

    fault: int
    part: str
    call: int
    until: float


class Trouble:
    """Breaks a part now and then, on a thread of its own, until told to stop."""

    def __init__(
        self,
        control: Control,
        dsn: str,
        *,
        calls: int,
        seed: int,
        clock: Clock = SYSTEM,
    ) -> None:
        self._control = control
        self._store = Store(dsn, patience=0.0)
        self._clock = clock
        self._chance = random.Random(seed)
        self._well = list(range(1, calls + 1))
        self._wrong: list[Wrong] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="trouble")

    def __enter__(self) -> Self:
        """Parts go wrong from now on."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """No further part goes wrong; those that are stay so."""
        self._over.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            for wrong in [w for w in self._wrong if w.until < self._clock.monotonic()]:
                self._heal(wrong)
            self._break()
        self._store.close()

    def _break(self) -> None:
        """One more part is wrong and on record, or neither."""
        if not self._well:
            return
        part = self._chance.choice(["agent", "equipment"])
        kind = self._chance.choice(list(Fault))
        call = self._well.pop(self._chance.randrange(len(self._well)))
        self._control.break_part(part, call, kind)
        began = self._clock.monotonic()
        try:
            ((fault,),) = self._store.rows(
                "add_fault",
                part=part,
                call=call,
                kind=kind,
                since=self._clock.monotonic() - began,
            )
        except psycopg.Error:
            # The database is away: a fault that is not on record must not be there.
            self._control.heal(part, call)
            self._well.append(call)
            return
        until = began + LASTS
        self._wrong.append(Wrong(fault=fault, part=part, call=call, until=until))

    def _heal(self, wrong: Wrong) -> None:
        try:
            self._store.rows("end_fault", id=wrong.fault)
        except psycopg.Error:
            return
        self._control.heal(wrong.part, wrong.call)
        self._wrong.remove(wrong)
        self._well.append(wrong.call)
