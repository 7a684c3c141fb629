"""Kills and freezes replicas by a seeded plan, one ready survivor always left.

Half of the blows are aimed into the 3 to 50 ms after a due instant, where claim and
publish happen: random instants alone hardly ever hit that window (measured: 131
random events met it never, 74 aimed ones 26 times). A replica that is still importing
is no survivor: only one that is ready in this life and has woken since.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from celery_pecker.kernel.clock import pause
from tests.chaos.verdict import Blow, Event

if TYPE_CHECKING:
    from tests.chaos.recorder import Recorder
    from tests.nodes import BeatNode

AIM = (0.003, 0.050)
FREEZE = (0.2, 4.0)
BETWEEN = (0.3, 1.3)
_TWO = 2
_GLANCE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One blow to come."""

    blow: Blow
    aimed: bool
    offset: float
    seconds: float
    chooses: float


def plan(seed: int) -> Iterator[Plan]:
    """Yield the same blows for the same seed, for ever; half of them aimed."""
    chance = random.Random(seed)
    aimed = False
    while True:
        aimed = not aimed
        yield Plan(
            blow=chance.choice((Blow.KILLED, Blow.FROZEN)),
            aimed=aimed,
            offset=chance.uniform(*AIM) if aimed else chance.uniform(*BETWEEN),
            seconds=chance.uniform(*FREEZE),
            chooses=chance.random(),
        )


class Chaos:
    """Carries a plan out on running replicas and writes down what it did."""

    def __init__(
        self,
        beats: Sequence[BeatNode],
        recorder: Recorder,
        *,
        seed: int,
        period: float = 1.0,
    ) -> None:
        self.beats = list(beats)
        self.events: list[Event] = []
        self._recorder = recorder
        self._plan = plan(seed)
        self._period = period
        self._frozen: dict[int, tuple[float, Event]] = {}

    def run(self, until: float) -> None:
        """Blows have fallen till the wall clock showed `until`; all are thawed."""
        try:
            while self._recorder.now() < until:
                self._strike(next(self._plan), until)
        finally:
            for index in list(self._frozen):
                self._thaw(index)

    def _strike(self, blow: Plan, until: float) -> None:
        standing = self._await_two(until)
        self._wait(self._instant(blow))
        # decided before the wait, checked after it: a survivor must still be there
        if len(standing) < _TWO or self._recorder.now() >= until:
            return
        index = standing[int(blow.chooses * len(standing))]
        self._fall(index, blow)

    def _await_two(self, until: float) -> list[int]:
        """Return the replicas that are ready and move; two at least, or time is up."""
        while self._recorder.now() < until:
            standing = [
                index
                for index, beat in enumerate(self.beats)
                if index not in self._frozen and beat.woken()
            ]
            if len(standing) >= _TWO:
                return standing
            self._wait(self._recorder.now() + _GLANCE)
        return []

    def _instant(self, blow: Plan) -> float:
        now = self._recorder.now()
        due = self._recorder.latest_due()
        if not blow.aimed or due is None:
            return now + blow.offset
        ahead = (now - due) // self._period + 1
        return due + ahead * self._period + blow.offset

    def _fall(self, index: int, blow: Plan) -> None:
        beat = self.beats[index]
        began, pid = self._recorder.now(), beat.process.pid
        if blow.blow is Blow.KILLED:
            beat.kill("SIGKILL")
            self._note(blow, began, self._recorder.now(), pid)
            beat.process.start()
            return
        beat.freeze()
        event = self._note(blow, began, began + blow.seconds, pid)
        self._frozen[index] = (event.ended, event)

    def _note(self, blow: Plan, began: float, ended: float, pid: int) -> Event:
        event = Event(
            blow=blow.blow, began=began, ended=ended, pid=pid, aimed=blow.aimed
        )
        self.events.append(event)
        return event

    def _wait(self, instant: float) -> None:
        """It is `instant`; who was to be thawed before has been."""
        while (now := self._recorder.now()) < instant:
            for index, (thaw, _) in list(self._frozen.items()):
                if thaw <= now:
                    self._thaw(index)
            nearest = min([instant, *(thaw for thaw, _ in self._frozen.values())])
            pause(max(0.0005, min(nearest - self._recorder.now(), _GLANCE)))

    def _thaw(self, index: int) -> None:
        self.beats[index].thaw()
        del self._frozen[index]
