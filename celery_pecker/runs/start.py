"""The start check: may this run begin, and by when must it end?

One statement, in bounded time, over one of a few connections that the threads of a
process share (celery_pecker.kernel.connections).
"""

import enum
from dataclasses import dataclass
from datetime import datetime

from celery_pecker.kernel.clock import Clock, to_us
from celery_pecker.kernel.connections import Connections
from celery_pecker.kernel.errors import DatabaseUnavailable, PeckerError
from celery_pecker.kernel.lease import SECOND
from celery_pecker.kernel.settings import Settings
from celery_pecker.runs.instants import Instants
from celery_pecker.runs.run import Run

LEAST = 0.05
"""Seconds that the question may take at least: the database decides what is late, not
this process' idea of its clock."""
NOT_REACHED = (
    "the row of its entry has not reached this slot and epoch: a failover lost the"
    " claim, the entry is gone, or no scheduler sent the message"
)
LOCK_SHARE = 0.8
"""The part of that time for which a locked fence is waited for."""


class StartVerdict(enum.StrEnum):
    """Whether a run starts; its value is the reason in logs."""

    STARTED = "started"
    LATE = "late"
    OVERTAKEN = "overtaken"
    REPEATED = "repeated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What became of the question."""

    verdict: StartVerdict
    ends: float = 0.0
    """The monotonic moment by which the run must have ended."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class StartAnswer:
    """The row of `start_run`."""

    now_us: int
    started: bool
    late: bool
    repeated: bool
    reached: bool

    @property
    def verdict(self) -> StartVerdict:
        """Return the reason. A run that has started before does not count as late."""
        if self.started:
            return StartVerdict.STARTED
        if self.repeated:
            return StartVerdict.REPEATED
        if self.late:
            return StartVerdict.LATE
        return StartVerdict.OVERTAKEN if self.reached else StartVerdict.UNKNOWN


class Starter:
    """Asks the database whether runs may start."""

    def __init__(self, settings: Settings, instants: Instants, clock: Clock) -> None:
        self._settings = settings
        self._instants = instants
        self._clock = clock
        self._connections = Connections(settings, clock, role="run")

    def start(self, run: Run, *, asked: bool) -> Start:
        """Return whether a run that has a deadline may start.

        A second question after a broken connection is safe: if the first one has
        arrived all the same, the second finds the run started and it is refused.
        """
        begun = self._clock.monotonic()
        budget = self._budget(run, begun)
        tries, problem = 2, ""
        while tries:
            left = begun + budget - self._clock.monotonic()
            if left <= 0:
                break
            tries -= 1
            sent = self._clock.monotonic()
            try:
                answer = self._ask(run, left, asked=asked)
            except DatabaseUnavailable as error:
                problem = str(error)
                self.close()  # the others lead to the same host
                continue
            except PeckerError as error:  # no tables, no rights: no run either
                problem, tries = str(error), 0
                continue
            self._instants.observe(answer.now_us, sent=sent)
            verdict = answer.verdict
            if verdict is StartVerdict.REPEATED and problem:
                verdict = StartVerdict.UNKNOWN
            return Start(
                verdict=verdict,
                ends=sent + _left(run, answer.now_us),
                why=problem or ("" if answer.reached else NOT_REACHED),
            )
        return Start(
            verdict=StartVerdict.UNKNOWN, why=problem or "no connection was free"
        )

    def read_clock(self, within: float) -> None:
        """Ask the database's clock, if it was not asked lately."""
        if self._instants.fresh:
            return
        sent = self._clock.monotonic()
        try:
            with self._connections.connection(
                min(within, self._settings.database_timeout)
            ) as one:
                ((now_us,),) = one.run("read_clock")
        except PeckerError:
            self._instants.missed()
        else:
            self._instants.observe(now_us, sent=sent)

    def close(self) -> None:
        """Close the idle connections."""
        self._connections.close()

    def _budget(self, run: Run, now: float) -> float:
        """Return for how long to ask: as long as there is left, if that is known."""
        seconds, deadline = _bounds(run)
        budget = min(self._settings.database_timeout, seconds)
        if self._instants.fresh:
            budget = min(budget, self._instants.moment(deadline) - now)
        return max(budget, LEAST)

    def _ask(self, run: Run, within: float, *, asked: bool) -> StartAnswer:
        lock_timeout = f"{max(int(within * LOCK_SHARE * 1000), 1)}ms"
        with self._connections.connection(within) as database:

            def ask() -> StartAnswer:
                (row,) = database.run(
                    "start_run",
                    **run.params,
                    asked=asked,
                    lock_timeout=lock_timeout,
                )
                return StartAnswer(*row)

            answer = ask()
            if answer.verdict is StartVerdict.OVERTAKEN:
                # Of two copies that ask at once, the loser waits for the winner's row
                # and does not see it: its snapshot is older. The next one shows it.
                answer = ask()
            return answer


def _bounds(run: Run) -> tuple[float, datetime]:
    """Return the seconds from slot to deadline, and the deadline."""
    assert run.deadline is not None  # noqa: S101  # no other run is asked about
    return (run.deadline - run.due_at).total_seconds(), run.deadline


def _left(run: Run, now_us: int) -> float:
    """Return what is left by the database's clock; never more than was given.

    That clock may have stepped back since the claim.
    """
    seconds, deadline = _bounds(run)
    return min((to_us(deadline) - now_us) / SECOND, seconds)
