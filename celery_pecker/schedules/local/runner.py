"""Takes won slots and runs them on threads of this process.

Why slots are not claimed here is logged: runs that do not end, threads all taken. Such
runs are seen nowhere else: they have no end that could be reported, and what is left to
other workers is no failure, if there are any. It is logged on the scheduler's
thread, which nothing that a run does can hold up.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any

from celery import states
from celery.beat import ScheduleEntry

from celery_pecker import deadline, signals
from celery_pecker.brokers.publisher.lanes import Dispatch, names_in
from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.errors import BrokerUnavailable, NotStarted
from celery_pecker.kernel.figures import spent_by
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_pecker.runs import running
from celery_pecker.schedules.history.report import Historian, NoHistory, Report
from celery_pecker.schedules.local import tracer
from celery_pecker.schedules.local.events import EventSender
from celery_pecker.schedules.local.prepared_entry import (
    Ready,
    SlotOrder,
    make_ready,
    order_of,
)
from celery_pecker.schedules.local.threads import Threads

UNENDING = 1.0
"""Seconds after its deadline at which a run that still goes on is logged."""
SCARCE = 5.0
"""Seconds that a slot waits for a thread until that is logged."""


class UnclaimedLog:
    """Logs each run once, and threads once a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged: dict[str, str] = {}
        """By entry, the run that was last logged."""
        self._scarce = OnceAMinute(logger, clock=clock.monotonic)

    def of_runs(self, orders: Sequence[SlotOrder]) -> None:
        """Log runs that keep their next slots from being claimed."""
        now = self._clock.monotonic()
        for order in orders:
            over = 0.0 if order.ends is None else now - order.ends
            if over > UNENDING and self._logged.get(order.name) != order.task_id:
                self._logged[order.name] = order.task_id
                logger.warning(
                    "pecker: the local run of %s still goes on, %.1f s after its"
                    " deadline: a thread cannot be ended; its next slots are left to"
                    " other workers",
                    order.name,
                    over,
                )

    def of_threads(self, waited: float, *, running: int, waiting: int) -> None:
        """Log that a slot has waited long for a thread."""
        if waited > SCARCE:
            self._scarce.warning(
                "threads",
                "pecker: a slot has waited %.1f s for one of the threads for local runs"
                " (%d running, %d waiting): nothing more is claimed here; see"
                " pecker_local_threads",
                waited,
                running,
                waiting,
            )


logger = logging.getLogger("celery_pecker.schedules.local")

DEEPEST = 1_000
"""Slots that wait for a thread, at most: as many as one claim takes."""
BACKLOG = 0.25
"""Seconds: while a slot has waited longer than this for a thread, no more are claimed
here, so that another worker wins them."""
EVENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    states.SUCCESS: ("task-succeeded", ("result", "runtime")),
    states.FAILURE: ("task-failed", ("exception", "traceback")),
    states.RETRY: ("task-retried", ("exception", "traceback")),
    states.REJECTED: ("task-rejected", ()),
}
"""Events of a run's end; a run that ignored itself has none."""


@dataclass(eq=False, repr=False)
class LocalRunner:
    """The way out of slots that run where they were won.

    To the scheduler it has the publisher's interface, but nothing leaves the process.
    A gate as well: entries that still run here are left to other workers.
    """

    app: Any
    _: KW_ONLY
    now_us: Callable[[], int]
    """The database's time, for reports."""
    hostname: str = "local@localhost"
    threads: int = 8
    recorder: Historian | None = None
    schema: str = "public"
    clock: Clock = SYSTEM
    pool_kind: str = "threads"
    wanted: Callable[[], bool] = lambda: True

    def __post_init__(self) -> None:
        self._recorder = self.recorder or NoHistory()
        self._kind = "gevent" if self.pool_kind == "gevent" else "threads"
        self._ready: dict[str, Ready] = {}
        self._lock = threading.Lock()
        self._open: dict[str, SlotOrder] = {}
        """What waits or goes, by the name of its entry."""
        self._queue: dict[str, float] = {}
        """Since when which entry waits for a thread, the longest first."""
        self._missed: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._stopping = False
        self._unclaimed = UnclaimedLog(self.clock)
        self._threads: Threads[SlotOrder] = Threads(
            self.threads, self._run, name="pecker-run"
        )
        self._most = self.threads + DEEPEST
        self.events = EventSender(
            self.app, self.hostname, wanted=self.wanted, clock=self.clock
        )

    # What the scheduler asks

    def prepare(self, entry: ScheduleEntry) -> None:
        """Make the entry ready to run.

        Raises:
            Misconfigured: it cannot run here.
        """
        ready = make_ready(entry, self.app.tasks)
        self._ready[ready.name] = ready

    def forget(self, name: str) -> None:
        """Forget an entry; its run that is under way goes on."""
        self._ready.pop(name, None)

    def ensure(self) -> None:
        """Check that slots are taken.

        Raises:
            BrokerUnavailable: not any more; others may claim them.
        """
        if self._stopping:
            raise BrokerUnavailable("this worker stops: it takes no more local runs")

    def held(self, names: Sequence[str]) -> Collection[str]:
        """Return those that are not to be claimed here now, as a gate does.

        What still runs here would be missed; and when threads are scarce, another
        worker may have some.
        """
        with self._lock:
            waited = self._waited()
            behind = waited > BACKLOG
            still = [self._open[name] for name in names if name in self._open]
        self._unclaimed.of_runs(still)
        self._unclaimed.of_threads(
            waited, running=self._threads.running, waiting=self._threads.waiting
        )
        return names if behind else [order.name for order in still]

    def publish(
        self, batch: Sequence[Dispatch], token: str, *, within: float = float("inf")
    ) -> None:
        """Run each slot of the batch as soon as a thread is free.

        Raises:
            NotStarted: some are not and will not be, and why; `done` names the others.
            KeyError: an entry that was never prepared; nothing was started.
        """
        now = self.clock.monotonic()
        orders = [
            order_of(self._ready[one.name], one, now, within, schema=self.schema)
            for one in batch
        ]
        refused: dict[str, str] = {}
        taken: set[str] = set()
        for order in orders:
            why = self._take(order)
            if why is None:
                taken.add(order.task_id)
                self._send_received(order)
                self._threads.put(order)
            else:
                refused[order.task_id] = f"{order.name}: {why}"
        if refused:
            raise NotStarted("; ".join(refused.values()), done=names_in(batch, taken))

    def take_missed(self) -> Counter[str]:
        """Return slots, by entry, that were taken and not run since this was asked."""
        with self._lock:
            missed, self._missed = self._missed, Counter()
        return missed

    # What the worker asks

    @property
    def busy(self) -> int:
        """How many runs are going."""
        return self._threads.running

    def stats(self) -> dict[str, int]:
        """Return counts since the start, and what runs, for people."""
        return {
            "running": self._threads.running,
            "waiting": self._threads.waiting,
            "events_waiting": self.events.waiting,
            "events_dropped": self.events.dropped,
            **{
                key: self._counts[key]
                for key in ("started", "succeeded", "failed", "overrun", "missed")
            },
        }

    def stop(self) -> None:
        """Start no more runs; those that go, go on. Safe in a signal handler."""
        if not self._stopping:
            self._stopping = True
            self._threads.stop()

    close = stop

    def abandon(self) -> None:
        """Drop the connection in a fork of the worker: it is the parent's."""
        self.events.abandon()

    def join(self, seconds: float) -> bool:
        """Wait for runs that go and events that wait; return whether all have ended."""
        end = self.clock.monotonic() + seconds
        done = self._threads.join(seconds, self.clock.monotonic)
        self.events.stop()
        return self.events.join(max(end - self.clock.monotonic(), 0.0)) and done

    # One slot

    def _waited(self) -> float:
        """Return the seconds of the run that has waited longest for a thread."""
        now = self.clock.monotonic()
        return now - next(iter(self._queue.values()), now)

    def _take(self, order: SlotOrder) -> str | None:
        """Keep the order; return why it cannot be taken, or None."""
        with self._lock:
            if self._stopping:
                return "this worker stops"
            if len(self._open) >= self._most:
                return f"{len(self._open)} local runs are open here already"
            other = self._open.get(order.name)
            if other is not None:
                return f"its slot of {other.run.due_at} still runs here"
            self._open[order.name] = order
            self._queue[order.name] = order.taken
            return None

    def _run(self, order: SlotOrder) -> None:
        began = self.clock.monotonic()
        with self._lock:
            del self._queue[order.name]
        try:
            if self._stopping:
                self._miss(order, "this worker stopped before a thread was free")
            elif began >= order.latest:
                self._miss(order, "too late when a thread was free")
            else:
                error = user_code.call_logging_errors(
                    f"local run of {order.name}", self._start, order, began
                )
                if error is not None:  # its arguments, its deadline at the very end
                    self._end(order, tracer.fallen(error), began)
        finally:
            with self._lock:
                self._open.pop(order.name, None)

    def _start(self, order: SlotOrder, began: float) -> None:
        self.app.set_current()
        args, kwargs = order.ready.arguments()
        with running(order.run), self._bounded(order):
            # Nothing slow comes after this question: a process that was frozen until
            # now does not start a run whose deadline is over.
            if deadline.remaining() == 0.0:
                self._miss(order, "its deadline was over before it could start")
                return
            self._note(order, Report.STARTED)
            self._count("started")
            self.events.send("task-started", order.ready.task, uuid=order.task_id)
            ended = tracer.run(
                *(self.app, order.ready.task, order.request(self.hostname)),
                *(args, kwargs),
            )
        self._end(order, ended, began)

    @contextmanager
    def _bounded(self, order: SlotOrder) -> Iterator[None]:
        """Run the block under the deadline, as strictly as the pool allows."""
        if order.ends is None:
            yield
            return
        with deadline.until(order.ends, order.name), deadline.enforce(self._kind):
            yield

    def _end(self, order: SlotOrder, ended: tracer.Ended, began: float) -> None:
        now = self.clock.monotonic()
        over = order.ends is not None and now >= order.ends
        if over or isinstance(ended.error, deadline.DeadlineExceeded):
            report = Report.OVERRUN
        elif ended.state in (states.SUCCESS, states.IGNORED):
            report = Report.SUCCEEDED
        else:
            report = Report.FAILED
        self._note(order, report, ended.exception, now - began)
        task, state = order.ready.task, report.name.lower()
        self._count(state)
        event = EVENTS.get(ended.state)
        if event is not None:
            kind, fields = event
            self.events.send(
                kind,
                task,
                uuid=order.task_id,
                **{field: getattr(ended, field) for field in fields},
            )
        signals.run_ended.send(
            signals.RunEnded(
                name=order.name, task=task.name, state=state, seconds=now - began
            )
        )

    def _miss(self, order: SlotOrder, why: str) -> None:
        self._note(order, Report.REFUSED_LATE)
        self._count("missed")
        with self._lock:
            self._missed[order.name] += 1
        logger.warning("pecker: 1 slot missed (%s): %s", why, order.name)
        signals.missed.send(signals.Missed(names=(order.name,), slots=1, reason=why))
        self.events.send(
            "task-revoked",
            order.ready.task,
            uuid=order.task_id,
            terminated=False,
            signum=None,
            expired=True,
        )

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    def _note(
        self,
        order: SlotOrder,
        report: Report,
        error: str = "",
        took: float | None = None,
    ) -> None:
        run, now_us = order.run, self.now_us()
        spent = None if took is None else spent_by(now_us, took, run.epoch)
        self._recorder.note(
            run.name, run.due_us, run.era, run.epoch, now_us, report, error, spent
        )

    def _send_received(self, order: SlotOrder) -> None:
        ready = order.ready
        self.events.send(
            "task-received",
            ready.task,
            uuid=order.task_id,
            name=ready.shadow or ready.task.name,
            args=ready.argsrepr,
            kwargs=ready.kwargsrepr,
            root_id=order.task_id,
            parent_id=None,
            retries=0,
            eta=None,
            expires=None,
        )
