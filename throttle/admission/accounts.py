"""The accounts of a worker: one for each database that has a limit."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from throttle.admission.account import Account, State
from throttle.admission.costs import KNOWN, Costs
from throttle.admission.runs import Admitted
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
        self._runs: dict[int, Admitted] = {}
        self._ended: dict[int, Admitted] = {}

    # Asked by the worker

    def admit(self, target: Target, task: str, run: int) -> Admission:
        """Say whether a run may start now; if so, its cost is expected from now on.

        `run` is `run_id` of its task id. Raises `Misconfigured` for a database without
        a limit.
        """
        account = self._accounts.get(target[0])
        if account is None:
            account = self._account(target[0])
        now = self._clock()
        with self._lock:
            cost = self._costs.expected(target, task)
            wait = account.wait(cost, now)
            if wait:
                if not account.limit.shadow:
                    room = account.operations.room
                    return Admission(False, max(room, 0.0), min(wait, 1.0))
                account.would_hold += 1
            if run in self._runs:
                self._drop(run)
            young = cost.runs < KNOWN
            if young:
                if not cost.entered:
                    cost.since = now
                cost.entered += 1
            admitted = Admitted(target, task, cost, young)
            self._runs[run] = admitted
            account.admit(admitted)
            if len(self._runs) > MOST:
                self._drop(next(iter(self._runs)))
            room = account.operations.room
            return Admission(True, room if room > 0 else 0.0, 0.0)

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
            admitted = self._runs.get(run)
            if admitted is not None:
                self._ended[run] = admitted

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

    def _see(self, run: Run) -> None:
        admitted = self._runs.get(run.run)
        if admitted is None or admitted.target.database != run.database:
            return
        if run.ended:
            self._costs.learn(admitted.target, admitted.task, run.amount, run.elapsed)
            admitted.young = False
            self._drop(run.run)
        else:
            self._accounts[run.database].see(admitted, run.amount, run.elapsed)

    def _give_up(self, dropped: int) -> None:
        for run, admitted in list(self._ended.items()):
            admitted.ended += 1
            if admitted.ended >= UNSEEN:
                if not dropped and not admitted.seen:
                    self._costs.learn(admitted.target, admitted.task, NOTHING, None)
                    admitted.young = False
                self._drop(run)

    def _drop(self, run: int) -> None:
        admitted = self._runs.pop(run, None)
        self._ended.pop(run, None)
        if admitted is not None:
            self._accounts[admitted.target.database].drop(admitted)
            if admitted.young:
                admitted.cost.entered -= 1
