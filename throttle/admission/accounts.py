"""The accounts of a worker: one for each database that has a limit."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from throttle.admission.account import Account, State
from throttle.admission.costs import Costs
from throttle.admission.runs import Admitted
from throttle.clock import Monotonic, monotonic
from throttle.errors import Misconfigured
from throttle.model import (
    NOTHING,
    TICK,
    Admission,
    Amount,
    Answer,
    Holding,
    Limit,
    Policy,
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
    ) -> None:
        now = clock()
        self._clock = clock
        self._lock = Lock()
        self._costs = Costs(prior)
        self._accounts = {name: Account(limit, now) for name, limit in limits.items()}
        self._runs: dict[int, Admitted] = {}
        self._ended: dict[int, Admitted] = {}

    # Asked by the worker

    def admit(self, target: Target, task: str, run: int) -> Admission:
        """Say whether a run may start now; if so, its cost is expected from now on.

        `run` is `run_id` of its task id. Raises `Misconfigured` for a database without
        a limit.
        """
        account = self._account(target[0])
        now = self._clock()
        with self._lock:
            account.refill(now)
            cost = self._costs.expected(target, task)
            wait = account.wait(cost)
            policy = account.policy(now)
            if policy is not None:
                if policy is Policy.OPEN:
                    wait = 0.0
                elif policy is Policy.CLOSED:
                    wait = TICK
            if wait:
                if not account.limit.shadow:
                    return Admission(
                        False, max(account.operations.room, 0.0), min(wait, 1.0)
                    )
                account.would_hold += 1
            if run in self._runs:
                self._drop(run)
            self._runs[run] = Admitted(
                target, task, cost, cost.operations, cost.seconds
            )
            account.expect(cost.operations, cost.seconds)
            account.count(target[1])
            if len(self._runs) > MOST:
                self._drop(next(iter(self._runs)))
            return Admission(True, max(account.operations.room, 0.0), 0.0)

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
            for name, account in self._accounts.items():
                account.refill(now)
                account.spent(reading.databases.get(name, NOTHING), now)
            for run in reading.runs:
                self._see(run)
            self._give_up(reading.dropped)

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
        account = self._accounts[run.database]
        spent = run.amount
        fresh_operations = min(
            spent.operations - admitted.spent.operations, admitted.operations
        )
        fresh_seconds = min(spent.seconds - admitted.spent.seconds, admitted.seconds)
        admitted.operations -= fresh_operations
        admitted.seconds -= fresh_seconds
        admitted.spent = spent
        account.expect(-fresh_operations, -fresh_seconds)
        if run.ended:
            self._costs.learn(admitted.target, admitted.task, spent, run.elapsed)
            self._drop(run.run)

    def _give_up(self, dropped: int) -> None:
        for run, admitted in list(self._ended.items()):
            admitted.ended += 1
            if admitted.ended >= UNSEEN:
                if not dropped and admitted.spent is NOTHING:
                    self._costs.learn(admitted.target, admitted.task, NOTHING, 0.0)
                self._drop(run)

    def _drop(self, run: int) -> None:
        admitted = self._runs.pop(run, None)
        self._ended.pop(run, None)
        if admitted is not None:
            account = self._accounts[admitted.target.database]
            account.expect(-admitted.operations, -admitted.seconds)
