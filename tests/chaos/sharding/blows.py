"""Kills by a seeded plan, half of them in dangerous windows, one survivor always left.

A survivor is ready in its present life. Killed is a whole worker with its processes, or
one process of its pool; a scheduler; a caller.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from celery_pecker.kernel.clock import SYSTEM, pause
from celery_pecker.testing import eventually
from tests.chaos.sharding.stand import Actor, Stand
from tests.chaos.sharding.windows import BY_ROLE, order_name

ROLES = ("worker", "worker", "scheduler", "caller")
RANDOM = "any moment"
PASSED_WITHIN = 3.0
BETWEEN = (0.05, 0.6)
_GLANCE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One blow to come."""

    role: str
    window: str
    """`RANDOM` or one of `windows`."""
    whole: bool
    """A worker with all its processes; else one of its pool."""
    wait: float
    chooses: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A death."""

    role: str
    window: str
    pid: int
    group: int
    """0: the process died alone."""
    at: float


def plan(seed: int) -> Iterator[Plan]:
    """Yield the same blows for the same seed, for ever; half of them aimed."""
    chance = random.Random(seed)
    aimed = False
    while True:
        aimed = not aimed
        role = chance.choice(ROLES)
        window = chance.choice(BY_ROLE[role])
        yield Plan(
            role=role,
            window=window if aimed else RANDOM,
            whole=role != "worker" or chance.random() < 0.6,
            wait=chance.uniform(*BETWEEN),
            chooses=chance.random(),
        )


@dataclass(slots=True)
class Blows:
    """Carries a plan out on a stand and writes down who died."""

    stand: Stand
    seed: int
    events: list[Event] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    """Windows that nobody passed while an order lay there."""

    def run(self, kills: int, until: float = float("inf")) -> None:
        """So many have died, or the monotonic clock showed `until`; all live again."""
        plans = plan(self.seed)
        while len(self.events) < kills and SYSTEM.monotonic() < until:
            blow = next(plans)
            pause(blow.wait)
            standing = self._await_two(blow.role)
            if blow.window == RANDOM:
                self._strike(blow, standing)
            else:
                self._aim(blow)
            self._again()
        for actor in self.stand.actors:
            eventually(lambda actor=actor: self._lives(actor), 60.0, "all live again")  # type: ignore[misc]

    def groups(self) -> set[int]:
        """Return the process groups that died whole."""
        return {one.group for one in self.events if one.group}

    def pids(self) -> set[int]:
        """Return the processes that died."""
        return {one.pid for one in self.events}

    def _await_two(self, role: str) -> list[Actor]:
        def two() -> list[Actor]:
            self._again()
            ready = [actor for actor in self.stand.of(role) if actor.ready]
            return ready if len(ready) > 1 else []

        return eventually(two, 60.0, f"two of {role} are ready")

    def _strike(self, blow: Plan, standing: list[Actor]) -> None:
        actor = standing[int(blow.chooses * len(standing))]
        pid = actor.process.pid
        pool = [] if blow.whole else psutil.Process(pid).children()
        if not pool:
            self._note(blow, pid, pid)
            actor.process.kill()
            return
        victim = pool[int(blow.chooses * 1_000) % len(pool)].pid
        self._note(blow, victim, 0)
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)

    def _aim(self, blow: Plan) -> None:
        name = order_name(blow.role, blow.window)
        order = self.stand.folder / name
        draft = order.with_name(f"draft-{name}")
        draft.write_text("whole" if blow.whole else "alone")
        draft.rename(order)
        end = SYSTEM.monotonic() + PASSED_WITHIN
        while order.exists() and SYSTEM.monotonic() < end:
            pause(_GLANCE)
        try:
            order.unlink()
            self.missed.append(f"{blow.role}: {blow.window}")
        except FileNotFoundError:
            self._note(blow, *self._who_died(name))

    def _who_died(self, name: str) -> tuple[int, int]:
        """Return the process that took the order, and its group if it died whole."""
        [path] = eventually(
            lambda: [*self.stand.folder.glob(f"died-{name}-*")],
            30.0,
            f"{name}: who died",
        )
        pid, group = map(int, path.read_text().split())
        path.unlink()
        return pid, group

    def _note(self, blow: Plan, pid: int, group: int) -> None:
        self.events.append(
            Event(
                role=blow.role,
                window=blow.window,
                pid=pid,
                group=group,
                at=SYSTEM.monotonic(),
            )
        )

    def _lives(self, actor: Actor) -> bool:
        self._again()
        return actor.ready

    def _again(self) -> None:
        """Who died whole, or lost its main process, lives again."""
        for actor in self.stand.actors:
            if actor.process.exit_code is not None:
                actor.again()
