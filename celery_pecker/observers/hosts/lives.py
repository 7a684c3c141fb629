"""What runs in a host: begins lives, ends them, tries failed code again.

Everything but ``add``, ``remove`` and what only reads is called on the event loop. The
host's other thread reports to the tables: it takes ``outcomes`` and removes a
life when the tables have it.

One call of an observer's code: as a coroutine, or in a thread.
"""

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import LeaseLost
from celery_pecker.kernel.forks import abandon_in_forks
from celery_pecker.observers.hosts.child import InProcess
from celery_pecker.observers.hosts.tables import Outcome
from celery_pecker.observers.kind import Observer
from celery_pecker.observers.lease import Claimed, Lease, Trust
from celery_pecker.observers.model import Isolation, Report, Unreachable

Ended = Callable[[BaseException | None], None]
"""Called on the event loop with what the code raised; None: it returned."""


class Running(Protocol):
    """A call that is under way."""

    def cancel(self) -> None:
        """Ask it to end."""

    def kill(self) -> bool:
        """End it by force; return whether that is possible: not in this process."""
        return False


class OnLoop(Running):
    """An async function on the event loop."""

    def __init__(self, name: str, call: Callable[[], Any], ended: Ended) -> None:
        self._ended = ended
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(_called(name, call), name=f"observer {name}")
        self.task.add_done_callback(self._done)

    def cancel(self) -> None:
        """Cancel the task."""
        self.task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._ended(asyncio.CancelledError("it was cancelled"))
        else:
            self._ended(task.exception())


class InThread(Running):
    """A plain function in a thread of its own."""

    def __init__(self, name: str, call: Callable[[], Any], ended: Ended) -> None:
        loop = asyncio.get_running_loop()

        def run() -> None:
            error = user_code.call_logging_errors(f"observer {name!r}", call)
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended, error)

        threading.Thread(target=run, name=f"observer {name}", daemon=True).start()

    def cancel(self) -> None:
        """Ask nothing: the lease says that it is over."""


async def _called(name: str, call: Callable[[], Any]) -> None:
    # Out of a task these two would end the event loop, and all that runs on it.
    try:
        await call()
    except (SystemExit, KeyboardInterrupt) as error:
        raise user_code.Exited(f"observer {name!r} raised {error!r}") from error


logger = logging.getLogger(__name__)

CANCEL_INTERVAL = 0.1
"""Seconds between two requests to end, of what has no grace."""
CANCEL_ATTEMPTS = 5
"""Requests to end, a grace apart, after which the host itself has to end."""
TURN_INTERVAL = 0.05
"""Seconds between two looks of the event loop at its trust."""


@dataclass(eq=False)
class Life:
    """One observer in this host, from its claim to its last report."""

    claimed: Claimed
    observer: Observer
    lease: Lease
    running: Running | None = None
    begun: float = 0.0
    timer: asyncio.TimerHandle | None = None
    ending: Report | None = None
    """How it is to end; None: it is not."""
    fenced: bool = False
    """Nothing is reported of it: its host is not trusted."""
    ended: bool = False
    asked: int = 0
    """How often it was asked to end."""

    def __post_init__(self) -> None:
        self.failures = self.claimed.failures


@dataclass(eq=False)
class Lives:
    """The observers of a host."""

    _kinds: Mapping[str, Observer]
    trust: Trust
    _: KW_ONLY
    schema: str
    wake: Callable[[], object] = lambda: None
    config: InitVar[dict[str, Any] | None] = None
    by_id: dict[int, Life] = field(default_factory=dict)
    """Changed by the host's other thread alone."""
    outcomes: deque[Outcome] = field(default_factory=deque)
    fenced: deque[int] = field(default_factory=deque)
    """Ids of lives that have ended without a report."""
    cursors: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Epochs and cursors that are to be written."""
    turned: float = field(default_factory=monotonic)
    """When the event loop turned last."""
    stuck: str = ""
    """Name of an observer that does not end; empty: there is none."""
    _processes: set[InProcess] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop | None = None
    _thread: int = 0
    _trusted: float = 0.0

    def __post_init__(self, config: dict[str, Any] | None) -> None:
        self._config = config or {}

    # On the host's other thread

    def add(self, claimed: Iterable[Claimed]) -> list[Life]:
        """Have lives for what was taken, not begun yet."""
        made = []
        for one in claimed:
            if one.id in self.by_id:
                continue  # its row was lost and came back; the life before ends first
            observer = self._kinds[one.kind]
            lease = Lease(
                one,
                self.trust,
                schema=self.schema,
                unreachable=observer.options.unreachable,
                save=self._save,
            )
            life = Life(one, observer, lease)
            self.by_id[one.id] = life
            made.append(life)
        return made

    def remove(self, ident: int, epoch: int) -> None:
        """Forget a life whose last report is written."""
        life = self.by_id.get(ident)
        if life is not None and life.ended and life.claimed.epoch == epoch:
            del self.by_id[ident]

    @property
    def weight(self) -> int:
        """The weight of all that is here."""
        return sum(life.claimed.weight for life in [*self.by_id.values()])

    def on_turn(self) -> Life | None:
        """Return the life whose code has the event loop at this moment; None: none's.

        A task that it made is not found.
        """
        task = None if self._loop is None else asyncio.current_task(self._loop)
        for life in [*self.by_id.values()]:
            if isinstance(life.running, OnLoop) and life.running.task is task:
                return life
        return None

    def stack(self) -> str:
        """Return what the event loop's thread does at this moment."""
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001  # documented
        return "".join(traceback.format_stack(frame))

    def fail_blocking(self, life: Life, error: BaseException) -> None:
        """Report a failure of code that has not ended; its host is about to."""
        self.outcomes.append(self._verdict(life, error))

    def kinds(self) -> list[tuple[str, int]]:
        """Return how many of each kind are here, the most first."""
        return Counter(one.claimed.kind for one in [*self.by_id.values()]).most_common()

    @property
    def pids(self) -> list[int]:
        """The ids of the processes of observers with ``isolation="process"``."""
        return [process.pid for process in [*self._processes]]

    # On the event loop

    async def turn(self) -> None:
        """Show that the event loop turns, and end what is not trusted, for ever."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        abandon_in_forks(self)
        while True:
            self.turned = monotonic()
            if self._trusted != self.trust.until:
                self._trusted = self.trust.until
                for process in [*self._processes]:
                    process.trust_until(self._trusted)
            if self.by_id and self.trust.left() <= 0:
                self.fence(
                    "its host could not renew the lease",
                    [
                        life
                        for life in [*self.by_id.values()]
                        if life.observer.options.unreachable is Unreachable.STOP
                    ],
                )
            await asyncio.sleep(TURN_INTERVAL)

    def abandon(self) -> None:
        """End a fork of this host as soon as its code returns to the event loop.

        Else each observer would run a second time in the fork; from Python 3.14 on the
        fork would stay idle instead, since asyncio runs no task there.
        """
        if self._loop is not None and threading.get_ident() == self._thread:
            self._loop.call_soon(os._exit, 1)

    def begin(self, lives: Iterable[Life], apart: float) -> None:
        """Begin lives, so many seconds one after another."""
        loop = asyncio.get_running_loop()
        for number, life in enumerate(lives):
            wait = max(number * apart, life.claimed.delay)
            if wait <= 0:
                self._call(life)
            else:
                life.timer = loop.call_later(wait, self._call, life)

    def end(self, ids: Iterable[int], report: Report, why: str) -> None:
        """Ask lives to end, and report of them so."""
        for ident in ids:
            life = self.by_id.get(ident)
            if life is not None:
                self._end(life, report, why)

    def fence(self, why: str, lives: Iterable[Life]) -> None:
        """End lives of which nothing may be reported any more."""
        ended = 0
        for life in lives:
            if life.fenced:
                continue
            life.fenced = True
            ended += 1
            if life.ended:
                self.fenced.append(life.claimed.id)
            else:
                self._end(life, Report.RELEASED, why)
        if ended:
            what = "1 observer was" if ended == 1 else f"{ended} observers were"
            logger.warning("pecker: %s ended here: %s", what, why)

    def _call(self, life: Life) -> None:
        life.timer = None
        if life.ending is not None:
            return
        life.begun = monotonic()
        # No more threads or processes: it fails by its policy, and holds up no other.
        error = user_code.tried(self._run, life)[1]
        if error is not None:
            self._returned(life, error)

    def _run(self, life: Life) -> None:
        if life.observer.options.isolation is Isolation.PROCESS:
            life.running = self._process(life)
            return
        on_loop = life.observer.options.isolation is Isolation.LOOP
        kind, one = OnLoop if on_loop else InThread, life.claimed
        call = partial(life.observer.function, life.lease, **one.args)
        life.running = kind(one.name, call, partial(self._returned, life))

    def _process(self, life: Life) -> InProcess:
        loop = asyncio.get_running_loop()

        def over(error: BaseException | None) -> None:
            self._processes.discard(made)
            self._returned(life, error)

        def ended(error: BaseException | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(over, error)

        config = {**self._config, "trust": self.trust.until}
        # Not from the claim's cursor: a life before may have moved on.
        claimed = replace(life.claimed, state=life.lease.state)
        made = InProcess(config, claimed, life.lease, ended)
        self._processes.add(made)
        return made

    def _end(self, life: Life, report: Report, why: str) -> None:
        if life.ending is not None:
            return
        life.ending = report
        life.lease.end(why)
        if life.running is None:
            if life.timer is not None:
                life.timer.cancel()
            self._ended(life)
            return
        self._cancel_until_ended(life)

    def _cancel_until_ended(self, life: Life) -> None:
        """Cancel what runs, again and again: code may swallow it."""
        if life.ended or life.running is None:
            return
        life.asked += 1
        if life.asked > 1 and life.running.kill():
            return
        if life.asked > CANCEL_ATTEMPTS:
            self.stuck = life.claimed.name
            self.wake()
            return
        life.running.cancel()
        grace = max(life.observer.options.stop_grace, CANCEL_INTERVAL)
        asyncio.get_running_loop().call_later(grace, self._cancel_until_ended, life)

    def _returned(self, life: Life, error: BaseException | None) -> None:
        life.running = None
        if life.ending is not None:
            self._ended(life)
        elif self._lapsed(life, error):
            # Its code asked before its host did: the tables name its new host.
            life.ending, life.fenced = Report.RELEASED, True
            life.lease.end("its lease was lost")
            self._ended(life)
        elif error is None:
            life.ending = Report.RETURNED
            self._ended(life)
        else:
            self._failed(life, error)

    def _lapsed(self, life: Life, error: BaseException | None) -> bool:
        """Return whether code ended because its host is not trusted.

        Code that raises LeaseLost under a trusted lease has failed: for example a guard
        on a connection to another database. The report of the failure changes nothing
        where another life has begun.
        """
        if error is None:
            return life.lease.lapsed
        untrusted = life.lease.lapsed or self.trust.left() <= 0
        return isinstance(error, LeaseLost) and untrusted

    def _failed(self, life: Life, error: BaseException) -> None:
        verdict = self._verdict(life, error)
        if verdict.report is Report.PARKED:
            life.ending = Report.PARKED
            life.lease.end("it is parked")
            life.ended = True
        else:
            loop = asyncio.get_running_loop()
            life.timer = loop.call_later(verdict.delay, self._call, life)
        self._report(verdict)

    def _verdict(self, life: Life, error: BaseException) -> Outcome:
        """Return what its policy says of a failure, and log it."""
        retry = life.observer.options.retry
        life.failures = retry.failures(life.failures, monotonic() - life.begun)
        delay = retry.delay(life.failures)
        shown = user_code.shown(error)
        one = life.claimed
        if delay is None:
            logger.error(
                "pecker: observer %s failed %d times and is parked: %s",
                one.name,
                life.failures,
                shown,
                exc_info=error,
            )
        else:
            logger.warning(
                "pecker: observer %s failed (%d in a row), tried again in %.1f s: %s",
                one.name,
                life.failures,
                delay,
                shown,
                exc_info=error,
            )
        return Outcome(
            id=one.id,
            epoch=one.epoch,
            report=Report.PARKED if delay is None else Report.FAILED,
            delay=delay or 0.0,
            failures=life.failures,
            error=shown,
        )

    def _ended(self, life: Life) -> None:
        life.ended = True
        one = life.claimed
        if life.fenced:
            self.fenced.append(one.id)
            self.wake()
            return
        assert life.ending is not None  # noqa: S101  # set by what ends it
        self._report(Outcome(id=one.id, epoch=one.epoch, report=life.ending))

    def _report(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.wake()

    def _save(self, ident: int, epoch: int, state: str) -> None:
        self.cursors[ident] = (epoch, state)
