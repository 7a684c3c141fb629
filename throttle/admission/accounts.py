"""The accounts of a worker: one for each database that has a limit."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from threading import RLock

from celery_pecker.kernel.clock import Monotonic, chance, monotonic
from throttle.admission import costs
from throttle.admission.account import Account, State
from throttle.admission.costs import Costs, Expected, UnderWay
from throttle.errors import Misconfigured
from throttle.model import (
    NOTHING,
    Admission,
    Amount,
    ExchangeAnswer,
    Holding,
    Limit,
    Reading,
    Run,
    Target,
)

MOST = 100_000
"""Admitted runs that are remembered; then the oldest are taken for ended."""
LONGEST = 1.0
"""Seconds until a retry, whatever is owed."""
UNSEEN = 2
"""Readings after a run's end that tell nothing of it: then it counted nothing."""


class Accounts:
    """Decides what may start. Threads may share it; no method waits or does I/O."""

    def __init__(
        self,
        limits: Mapping[str, Limit],
        *,
        clock: Monotonic = monotonic,
        phase: float | None = None,
    ) -> None:
        """Take the limits; `phase` is random where it is None (see `account`)."""
        now = clock()
        phase = chance() if phase is None else phase
        self._clock = clock
        self._lock = RLock()  # of a handler of a signal, too: see `hold.Hold`
        self._costs = Costs(costs.PRIOR)
        self._accounts = {
            name: Account(limit, now, phase) for name, limit in limits.items()
        }
        self._opened = False
        self._kinds: dict[tuple[Target, str], tuple[Account, Expected]] = {}
        """Forgotten at each reading: costs may have been learned."""
        self._runs: dict[int, Expected | UnderWay] = {}
        self._ended: list[list[int]] = [[] for _ in range(UNSEEN)]
        """Runs whose end the worker saw: since the last reading, since the one before
        it. A reading may have shown some of them meanwhile."""

    # Asked by the worker

    def admit(self, target: Target, task: str, run: int) -> Admission:
        """Return whether a run may start now; if so, its cost is expected from now on.

        `run` is a number that no other run of this process has. Raises `Misconfigured`
        for a database without a limit.
        """
        now = self._clock()
        with self._lock:
            account, wait = self._enter(target, task, run, now)
            room = account.operations.room
        return Admission(not wait, max(room, 0.0), min(wait, LONGEST))

    def enter(self, target: Target, task: str, run: int) -> bool:
        """Return whether it may start: `admit` in less time, without the rest."""
        now = self._clock()
        with self._lock:
            known = self._kinds.get((target, task))
            if known is not None:
                kind = known[1]
                if kind.passes and now < kind.until:
                    kind.passes -= 1
                    self._runs[run] = kind
                    return True
                known[0].settle(kind)
            account, wait = self._enter(target, task, run, now)
            if not wait:
                account.let_in_ahead(self._kinds[target, task][1], now)
            return not wait

    def over(self, ended: Collection[int], unstarted: Collection[int]) -> None:
        """End these runs, or cancel their start. Unknown ones are no error.

        What was expected of one that will not start (revoked, expired, handed on) is
        free at once. Of one that ended it stays until a reading has shown its cost,
        or two have not shown it: then it did nothing to the database, and that is
        learned.
        """
        with self._lock:
            for run in unstarted:
                self._drop(run)
            self._ended[0].extend(ended)

    def cost(self, target: Target, task: str) -> Amount:
        """Return what a run is expected to cost: for the hold."""
        with self._lock:
            return self._costs.expected(target, task).amount

    def waiting(self, database: str, amount: Amount) -> None:
        """Set how much the tasks held by the worker will cost, for its share."""
        self._account(database).waiting = amount

    # Called by the exchange

    def observe(self, reading: Reading, now: float) -> None:
        """Take a reading of the meter; `now` is its monotonic time."""
        with self._lock:
            self._forget_kinds()
            for account in self._accounts.values():
                # Before the runs: room is bounded, and their cost is about to be taken
                account.refill(now)
            self._see(reading.runs)
            self._give_up(reading.dropped)
            for name, account in self._accounts.items():
                account.observe(reading.databases.get(name, NOTHING), now)

    def update(self, answer: ExchangeAnswer | None, now: float) -> None:
        """Take the store's answer; None: there was none. `now` is when it was asked."""
        if answer is None:
            return
        with self._lock:
            for name, seen in answer.databases.items():
                account = self._accounts.get(name)
                if account is not None and account.update(seen, now):
                    self._opened = True

    def opened(self) -> bool:
        """Return whether something may start that could not at the last call."""
        opened, self._opened = self._opened, False
        return opened

    def recall(self, database: str, text: str) -> None:
        """Take from others the costs of tasks that have not run in this process."""
        known = costs.read(text)
        with self._lock:
            self._costs.recall(database, known)
            self._forget_kinds()

    def remember(self, database: str, before: str) -> str:
        """Return what tasks cost, over what others wrote before, for others."""
        with self._lock:
            known = {
                task: replace(cost)
                for task, cost in self._costs.known(database).items()
            }
        return costs.written(known, before) if known else before

    # What it says

    def remaining(self, database: str) -> float:
        """Return the operations that could come in now."""
        account = self._account(database)
        with self._lock:
            account.refill(self._clock())
            return max(account.operations.room, 0.0)

    def holding(self, database: str) -> Holding:
        """Return the report on a database; the worker adds what waits."""
        account = self._account(database)
        limit = account.limit
        with self._lock:
            return Holding(
                want=account.demand(self._clock()),
                limit=Amount(limit.operations, limit.seconds or 0.0),
                turn=account.turn(self._clock()),
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
            raise Misconfigured(
                f"{database!r} is no database with a limit; there are {allowed}"
            ) from None

    def _kind(self, target: Target, task: str) -> tuple[Account, Expected]:
        account = self._account(target.database)
        known = account, Expected(target, task, self._costs.expected(target, task))
        self._kinds[target, task] = known
        return known

    def _forget_kinds(self) -> None:
        """Forget what was let in ahead: what is expected of a run may have changed."""
        for account, kind in self._kinds.values():
            account.settle(kind)
        self._kinds.clear()

    def _enter(
        self, target: Target, task: str, run: int, now: float
    ) -> tuple[Account, float]:
        account, kind = self._kinds.get((target, task)) or self._kind(target, task)
        wait = account.enter(kind, now)
        if not wait:
            runs = self._runs
            if run in runs:
                self._drop(run)
            runs[run] = kind
            if len(runs) > MOST:
                for old in list(islice(runs, MOST // 100)):
                    self._drop(old)
        return account, wait

    def _see(self, shown: Iterable[Run]) -> None:
        """Learn what runs have cost: of those that ended, kind by kind."""
        ended: defaultdict[Expected, list[Run]] = defaultdict(list)
        runs = self._runs
        for run in shown:
            was = runs.get(run.run)
            if was is None:
                continue
            kind = was if type(was) is Expected else was.kind  # type: ignore[union-attr]
            if kind.target.database != run.database:
                continue
            if run.ended:
                ended[kind].append(run)
                continue
            now = UnderWay(kind, kind.cost.duration, run.amount, run.elapsed)
            self._accounts[run.database].revise(was, now)
            runs[run.run] = now
        for kind, some in ended.items():
            self._costs.learn(
                kind.target, kind.task, [(run.amount, run.elapsed) for run in some]
            )
            self._end(kind, [run.run for run in some])

    def _give_up(self, dropped: int) -> None:
        """Count runs that no reading has shown as runs that counted nothing."""
        unseen: defaultdict[Expected, list[int]] = defaultdict(list)
        runs = self._runs
        for run in self._ended.pop():
            was = runs.get(run)
            if was is None:
                continue
            kind = was if type(was) is Expected else was.kind  # type: ignore[union-attr]
            unseen[kind].append(run)
        self._ended.insert(0, [])
        for kind, some in unseen.items():
            none = [run for run in some if runs[run] is kind]
            if none and not dropped:
                ends = [(NOTHING, None)] * len(none)
                self._costs.learn(kind.target, kind.task, ends)
            self._end(kind, some)

    def _end(self, kind: Expected, ended: Iterable[int]) -> None:
        """End runs of one kind: nothing more is expected of them."""
        plain = 0
        for run in ended:
            if self._runs.get(run) is kind:
                del self._runs[run]
                plain += 1
            else:
                self._drop(run)
        if plain:
            self._accounts[kind.target.database].end(kind, plain)
            if kind.young:
                kind.cost.inside -= plain

    def _drop(self, run: int) -> None:
        was = self._runs.pop(run, None)
        if was is None:
            return
        kind = was if isinstance(was, Expected) else was.kind
        self._accounts[kind.target.database].revise(was, None)
        if kind.young:
            kind.cost.inside -= 1
