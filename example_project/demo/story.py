"""What is done to whom, in which order, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from celery_pecker.kernel.clock import SYSTEM, Clock, pause
from example_project.demo.interrupts import undisturbed
from example_project.demo.report import Cause
from example_project.demo.scene import Scene
from example_project.demo.servers import Servers
from example_project.demo.stage import Scheduler, Stage
from example_project.demo.timeline import Timeline

FROZEN = 5.0
BROKERLESS = 4.0
"""Seconds without a broker: calls are checked 5 s after the last time, and dropped
after 20."""
DRAINED = 2.0
"""Seconds after which the run of the last slot has recorded itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds of rest between what is done."""

    before: float = 5.0
    alone: float = 6.0
    """How long the survivor has to do without the killed scheduler."""
    between: float = 5.0
    after: float = 6.0
    outage: float = 0.0
    """How long PostgreSQL stays down at its restart, beyond what that takes."""


SHORT = Pace(before=4.0, alone=3.0, between=3.0, after=5.0)


class Story:
    """Kills a scheduler, freezes the other, restarts PostgreSQL, stops the broker."""

    def __init__(
        self,
        stage: Stage,
        servers: Servers,
        timeline: Timeline,
        scene: Scene,
        *,
        pace: Pace,
        clock: Clock = SYSTEM,
    ) -> None:
        self._stage = stage
        self._servers = servers
        self._timeline = timeline
        self._scene = scene
        self._tell = scene.tell
        self._pace = pace
        self._clock = clock
        self.brokerless: tuple[int, int] | None = None
        """From when until when there was no broker."""

    def play(self) -> None:
        """The story has been played; the timeline says when."""
        self._timeline.begin()
        self._tell("all is well: two schedulers compete for every slot")
        pause(self._pace.before)
        killed, other = self._by_win()
        self._kill(killed)
        pause(self._pace.between)
        self._freeze(other)
        pause(self._pace.between)
        self._restart()
        pause(self._pace.after)
        self._timeline.end()
        pause(DRAINED)
        if self._servers.redis.ours:
            self._stop_broker()
        self._tell("the story is over; the last runs come in")
        pause(DRAINED)

    def _by_win(self) -> tuple[Scheduler, Scheduler]:
        """Return the scheduler that won last, whose loss hurts most, and the other."""
        first, second = self._stage.schedulers
        if self._scene.last_winner() == second.name:
            return second, first
        return first, second

    def _kill(self, scheduler: Scheduler) -> None:
        with self._timeline.doing(Cause.KILL, scheduler.name):
            pid = scheduler.pid
            scheduler.kill()
            self._tell(f"kill -9 scheduler {scheduler.name} (pid {pid})")
            pause(self._pace.alone)
            began = self._clock.monotonic()
            scheduler.start()
            self._tell(f"scheduler {scheduler.name} comes back (pid {scheduler.pid})")
            scheduler.await_ready()
        took = self._clock.monotonic() - began
        self._tell(f"scheduler {scheduler.name} is ready after {took:.1f} s")

    def _freeze(self, scheduler: Scheduler) -> None:
        with self._timeline.doing(Cause.FREEZE, scheduler.name):
            scheduler.freeze()
            self._tell(f"SIGSTOP scheduler {scheduler.name} for {FROZEN:g} s")
            pause(FROZEN)
            scheduler.thaw()
        self._tell(f"SIGCONT scheduler {scheduler.name}")

    def _stop_broker(self) -> None:
        """Runs in a worker need no broker: one second after the other is on record."""
        self._tell("a worker starts that is a scheduler too, for the local task")
        self._stage.start_local()
        pause(DRAINED)
        redis = self._servers.redis
        with self._timeline.doing(Cause.BROKER, "Redis"):
            self._tell(f"Redis, the broker, is stopped for {BROKERLESS:g} s")
            with undisturbed():
                redis.stop()
            self.brokerless = self._timeline.stretch(BROKERLESS)
            with undisturbed():
                redis.start()
        self._tell("Redis answers again")
        pause(self._pace.between)

    def _restart(self) -> None:
        postgres = self._servers.postgres
        began = self._clock.monotonic()
        with self._timeline.doing(postgres.cause, "PostgreSQL"):
            self._tell(postgres.restarting)
            with undisturbed():
                postgres.restart(self._pace.outage)
        took = self._clock.monotonic() - began
        self._tell(f"PostgreSQL answers again after {took:.1f} s")
