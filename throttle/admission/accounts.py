"""The accounts of a worker: one for each database that has a limit."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from threading import Lock

from throttle.admission.account import Account, State
from throttle.admission.costs import Costs
from throttle.admission.runs import Expected, UnderWay
from throttle.clock import Monotonic, chance, monotonic
from throttle.errors import Misconfigured
from throttle.model import (
    NOTHING,
    Admission,
    Amount,
    Answer,
    Holding,
    Limit,
    Reading,
    Run,
    Target,
)

MOST = 100_000
"""Admitted runs that are remembered; then the oldest are taken for ended."""
LONGEST = 1.0
"""Seconds after which it is worth asking again, whatever is owed."""
UNSEEN = 2
"""Readings after a run's end that tell nothing of it: then it counted nothing."""


class Accounts:
    """Says what may come in. Threads may share it; nothing here waits or does I/O."""

    def __init__(
        self,
        limits: Mapping[str, Limit],
        *,
        prior: float = 10.0,
        clock: Monotonic = monotonic,
        phase: float | None = None,
    ) -> None:
        """Know the limits; `phase` is drawn where none is given (see `turns`)."""
        now = clock()
        phase = chance() if phase is None else phase
        self._clock = clock
        self._lock = Lock()
        self._costs = Costs(prior)
        self._accounts = {
            name: Account(limit, now, phase) for name, limit in limits.items()
        }
        self._kinds: dict[tuple[Target, str], tuple[Account, Expected]] = {}
        """Forgotten at each reading: costs may have been learned."""
        self._runs: dict[int, Expected | UnderWay] = {}
        self._ended: dict[int, int] = {}
        """Readings since the worker saw a run's end that told nothing of it."""

    # Asked by the worker

    def admit(self, target: Target, task: str, run: int) -> Admission:
        """Say whether a run may start now; if so, its cost is expected from now on.

        `run` is `run_id` of its task id. Raises `Misconfigured` for a database without
        a limit.
        """
        now = self._clock()
        with self._lock:
            known = self._kinds.get((target, task)) or self._kind(target, task)
            account, kind = known
            wait = account.enter(kind, now)
            room = account.operations.room
            if room < 0:
                room = 0.0
            if wait:
                return Admission(False, room, min(wait, LONGEST))
            runs = self._runs
            if run in runs:
                self._drop(run)
            runs[run] = kind
            if len(runs) > MOST:
                for old in list(islice(runs, MOST // 100)):
                    self._drop(old)
        return Admission(True, room, 0.0)

    def forget(self, run: int) -> None:
        """The run will not start after all: it was revoked, has expired, was handed on.

        What was expected of it is free at once. Unknown runs are no error.
        """
        with self._lock:
            self._drop(run)

    def ended(self, run: int) -> None:
        """The worker saw the run end.

        What was expected of it stays until a reading has told what it cost, or two have
        told nothing: then it did nothing to the database, and that is learned.
        """
        with self._lock:
            if run in self._runs:
                self._ended[run] = 0

    def cost(self, target: Target, task: str) -> Amount:
        """Return what a run is expected to cost: for the hold."""
        with self._lock:
            return self._costs.expected(target, task).amount

    def waiting(self, database: str, amount: Amount) -> None:
        """The worker holds tasks that will cost so much: for its share."""
        self._account(database).waiting = amount

    # Told by the exchange

    def observe(self, reading: Reading, now: float) -> None:
        """The meter was read: `now` is the monotonic time of the reading."""
        with self._lock:
            for account in self._accounts.values():
                # Before the runs: room is bounded, and their cost is about to be taken
                account.refill(now)
            for run in reading.runs:
                self._see(run)
            self._give_up(reading.dropped)
            self._kinds.clear()
            for name, account in self._accounts.items():
                account.observe(reading.databases.get(name, NOTHING), now)

    def heard(self, answer: Answer | None, now: float) -> None:
        """The store answered; None: it did not. `now` is when it was asked."""
        if answer is None:
            return
        with self._lock:
            for name, seen in answer.databases.items():
                account = self._accounts.get(name)
                if account is not None:
                    account.heard(seen, now)

    # What it says

    def want(self, database: str) -> float:
        """Return how much of the limit it could use now; may be above 1."""
        with self._lock:
            return self._account(database).want(self._clock())

    def remaining(self, database: str) -> float:
        """Return the operations that could come in now."""
        account = self._account(database)
        with self._lock:
            account.refill(self._clock())
            return max(account.operations.room, 0.0)

    def holding(self, database: str) -> Holding:
        """Return what is told of a database; what waits is the worker's to add."""
        account = self._account(database)
        limit = account.limit
        with self._lock:
            return Holding(
                want=account.want(self._clock()),
                limit=Amount(limit.operations, limit.seconds or 0.0),
                admitted=account.admitted,
                would_hold=account.would_hold,
                tenants={name: (0, count) for name, count in account.tenants.items()},
            )

    def state(self, database: str) -> State:
        """Return a database as this worker sees it."""
        with self._lock:
            return self._account(database).state(self._clock())

    # Inside: under the lock

    def _account(self, database: str) -> Account:
        try:
            return self._accounts[database]
        except KeyError:
            allowed = ", ".join(repr(name) for name in sorted(self._accounts))
            message = f"{database!r} is no database with a limit; there are {allowed}"
            raise Misconfigured(message) from None

    def _kind(self, target: Target, task: str) -> tuple[Account, Expected]:
        account = self._account(target.database)
        known = account, Expected(target, task, self._costs.expected(target, task))
        self._kinds[target, task] = known
        return known

    def _see(self, run: Run) -> None:
        was = self._runs.get(run.run)
        if was is None:
            return
        kind = was if isinstance(was, Expected) else was.kind
        if kind.target.database != run.database:
            return
        if run.ended:
            self._costs.learn(kind.target, kind.task, run.amount, run.elapsed)
            self._drop(run.run)
            return
        now = UnderWay(kind, kind.cost.duration, run.amount, run.elapsed)
        self._accounts[run.database].revise(was, now)
        self._runs[run.run] = now

    def _give_up(self, dropped: int) -> None:
        for run, readings in list(self._ended.items()):
            self._ended[run] = readings + 1
            if readings + 1 < UNSEEN:
                continue
            kind = self._runs[run]
            if isinstance(kind, Expected) and not dropped:
                self._costs.learn(kind.target, kind.task, NOTHING, None)
            self._drop(run)

    def _drop(self, run: int) -> None:
        was = self._runs.pop(run, None)
        self._ended.pop(run, None)
        if was is None:
            return
        kind = was if isinstance(was, Expected) else was.kind
        self._accounts[kind.target.database].revise(was, None)
        if kind.young:
            kind.cost.inside -= 1
