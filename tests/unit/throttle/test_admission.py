"""What a worker lets in: one account, played by hand."""

from __future__ import annotations

from itertools import count

import pytest

from throttle.admission import Accounts, costs
from throttle.admission.account import PERIOD, has_turn
from throttle.admission.costs import Cost
from throttle.errors import Misconfigured
from throttle.model import (
    TICK,
    Admission,
    Amount,
    Estimator,
    ExchangeAnswer,
    Limit,
    Policy,
    Reading,
    Run,
    Seen,
    Target,
)

MAIN = Target("main", "acme")


class Worker:
    """A worker whose clock, store and meter are the test's."""

    def __init__(
        self,
        *,
        operations: float = 1000.0,
        seconds: float | None = None,
        policy: Policy = Policy.SAFE,
        shadow: bool = False,
        phase: float = 0.0,
    ) -> None:
        self.now = 1000.0
        limit = Limit(
            database="main",
            operations=operations,
            seconds=seconds,
            policy=policy,
            shadow=shadow,
        )
        self.accounts = Accounts({"main": limit}, clock=lambda: self.now, phase=phase)
        self.numbers = count()

    def hear(
        self,
        share: float = 1.0,
        *,
        holders: int = 1,
        traffic: float = 0,
        turn: bool | None = False,
    ) -> None:
        """The store answers now."""
        seen = Seen(
            turn=turn,
            traffic={Estimator.FAST: Amount(traffic)},
            outside={},
            share=share,
            holders=holders,
        )
        self.accounts.update(ExchangeAnswer(at=0.0, databases={"main": seen}), self.now)

    def ask(self, task: str = "task", target: Target = MAIN) -> tuple[Admission, int]:
        """A new run wants to start."""
        run = next(self.numbers)
        return self.accounts.admit(target, task, run), run

    def let_in(self, task: str = "task", most: int = 10_000) -> list[int]:
        """As many start as may; at most so many."""
        runs: list[int] = []
        while len(runs) < most:
            admission, run = self.ask(task)
            if not admission.admitted:
                break
            runs.append(run)
        return runs

    def tick(
        self,
        *runs: Run,
        spent: float | None = None,
        share: float | None = 1.0,
        dropped: int = 0,
    ) -> None:
        """100 ms pass, the meter is read and the store answers."""
        self.now += TICK
        total = sum(run.amount.operations for run in runs if run.ended)
        own = Amount(total if spent is None else spent)
        self.accounts.observe(Reading({"main": own}, runs, dropped), self.now)
        if share is not None:
            self.hear(share)

    def learn(self, cost: float, task: str = "task", duration: float = 0.01) -> None:
        """What a task costs is known, and nothing has happened for a while."""
        for _ in range(40):
            runs = self.let_in(task, most=1)
            self.tick(*(ended(run, cost, duration) for run in runs))
        self.rest()

    def rest(self, share: float = 1.0) -> None:
        """Two seconds pass in which nothing happens."""
        for _ in range(20):
            self.tick(share=share)


def ended(run: int, cost: float, elapsed: float = 0.01) -> Run:
    """Return what a reading tells of a run that has ended."""
    return Run(run, "main", Amount(cost), elapsed, ended=True)


def test_nothing_comes_in_before_the_store_has_answered() -> None:
    """It may belong to others."""
    worker = Worker()
    worker.now += 0.2
    assert not worker.ask()[0].admitted


def test_the_mean_is_the_share_of_the_limit() -> None:
    """For ten seconds of an endless backlog, in each of them."""
    worker = Worker()
    worker.learn(10)
    seconds = []
    for _ in range(10):
        spent = 0
        for _ in range(10):
            runs = worker.let_in()
            spent += 10 * len(runs)
            worker.tick(*(ended(run, 10) for run in runs), share=0.5)
        seconds.append(spent)
    assert max(seconds[1:]) <= 500
    assert min(seconds[1:]) >= 450


def test_what_was_let_in_and_has_not_been_seen_counts() -> None:
    """Work that waits in the pool is as good as done."""
    worker = Worker()
    worker.learn(10)
    let_in = 0
    for _ in range(30):
        let_in += len(worker.let_in())
        worker.tick()  # none of them has started
    assert let_in * 10 <= 1000


def test_what_piled_up_in_the_pool_is_not_followed_by_as_much_again() -> None:
    """After a stall of half a second, the second of the rush counts as a whole."""
    worker = Worker()
    worker.learn(10)
    stalled: list[int] = []
    for _ in range(6):
        stalled += worker.let_in()
        worker.tick()
    rush = [10 * len(stalled)]
    worker.tick(*(ended(run, 10) for run in stalled))
    for _ in range(9):
        runs = worker.let_in()
        rush.append(10 * len(runs))
        worker.tick(*(ended(run, 10) for run in runs))
    assert rush[0] >= 500
    assert sum(rush) <= 1000


def test_a_debt_is_paid() -> None:
    """Ten times dearer than expected: nothing until the mean is right again."""
    worker = Worker()
    worker.learn(10)
    runs = worker.let_in(most=5)
    worker.tick(*(ended(run, 10) for run in runs), spent=2000)
    quiet = 0
    while not worker.ask()[0].admitted:
        worker.tick()
        quiet += 1
    assert 18 <= quiet <= 23


@pytest.mark.parametrize("seconds", [1, 2, 9])
def test_a_run_that_is_larger_than_the_share_passes_alone(seconds: int) -> None:
    """And two seconds' worth of it are paid by two seconds of silence."""
    worker = Worker()
    worker.learn(1000 * seconds)
    for _ in range(5):
        worker.rest()
    (run,) = worker.let_in()
    worker.tick(ended(run, 1000 * seconds))
    quiet = 0
    while not worker.ask()[0].admitted:
        worker.tick()
        quiet += 1
    assert 10 * seconds - 2 <= quiet <= 11 * seconds + 1


def test_a_debt_is_forgiven_in_the_end() -> None:
    """A minute's worth that nobody asked for does not shut the gate for a minute."""
    worker = Worker()
    worker.learn(10)
    worker.tick(spent=60_000)
    quiet = 0
    while not worker.ask()[0].admitted:
        worker.tick()
        quiet += 1
    assert 95 <= quiet <= 110


def test_long_runs_are_spread_over_the_time_that_they_take() -> None:
    """What has been saved up does not come in as runs that all last two seconds."""
    worker = Worker()
    worker.learn(400, duration=0.2)
    worker.rest()
    begun = 0
    for _ in range(5):
        begun += len(worker.let_in())
        worker.tick()  # they wait in the pool
        worker.accounts._accounts["main"].operations.room = 1000.0
    assert begun == 3


def test_database_seconds_are_a_limit_too() -> None:
    """Few statements that take long."""
    worker = Worker(operations=1e9, seconds=2.0)
    worker.hear()
    cost = Amount(1, 0.5)
    for _ in range(40):
        runs = worker.let_in(most=1)
        worker.now += TICK
        told = tuple(Run(run, "main", cost, 0.5, ended=True) for run in runs)
        own = Amount(len(runs), 0.5 * len(runs))
        worker.accounts.observe(Reading({"main": own}, told), worker.now)
        worker.hear()
    worker.rest()
    begun = 0
    for _ in range(20):
        runs = worker.let_in()
        begun += len(runs)
        worker.now += TICK
        told = tuple(Run(run, "main", cost, 0.5, ended=True) for run in runs)
        own = Amount(len(runs), 0.5 * len(runs))
        worker.accounts.observe(Reading({"main": own}, told), worker.now)
        worker.hear()
    assert 6 <= begun <= 9  # two seconds: eight runs


def test_a_kind_that_nobody_knows_comes_in_few_at_a_time() -> None:
    """One; once it has ended three more; then what it costs is known."""
    worker = Worker(operations=1e6)
    worker.hear()
    worker.tick()
    first = worker.let_in()
    assert len(first) == 1
    worker.tick(*(ended(run, 10) for run in first))
    second = worker.let_in()
    assert len(second) == 3
    worker.tick(*(ended(run, 10) for run in second))
    third = worker.let_in()
    assert len(third) == 9
    worker.tick(*(ended(run, 10) for run in third))
    assert len(worker.let_in(most=1000)) == 1000


def test_a_kind_that_nobody_meters_is_not_stuck() -> None:
    """As many more every half second, although no run is ever seen."""
    worker = Worker(operations=1e6)
    worker.hear()
    begun = 0
    for _ in range(40):
        begun += len(worker.let_in(most=500))
        worker.tick()
    assert 150 <= begun <= 300


def test_each_tenant_has_its_own_cost() -> None:
    """The small one is not taken for the large one."""
    worker = Worker()
    small, large = Target("main", "small"), Target("main", "large")
    for target, cost in [(small, 2), (large, 300)] * 20:
        admission, run = worker.ask(target=target)
        worker.tick(*([ended(run, cost)] if admission.admitted else []))
        worker.rest()
    assert worker.accounts.cost(small, "task").operations == pytest.approx(2)
    assert worker.accounts.cost(large, "task").operations == pytest.approx(300)
    new = worker.accounts.cost(Target("main", "new"), "task").operations
    assert 100 < new < 200


def test_a_long_run_that_costs_more_is_known_before_it_ends() -> None:
    """What others may do shrinks as soon as its own rate is seen."""
    worker = Worker()
    worker.learn(20, duration=2.0)
    (run,) = worker.let_in(most=1)
    expected = worker.accounts.state("main").expected.operations
    worker.tick(Run(run, "main", Amount(1), 0.05, ended=False), spent=1)
    for tick in range(1, 4):
        amount = Amount(100.0 * tick)
        told = Run(run, "main", amount, 0.05 + TICK * tick, ended=False)
        worker.tick(told, spent=100)
    assert expected == pytest.approx(20)
    assert worker.accounts.state("main").expected.operations > 300


def test_a_run_that_never_starts_is_forgotten() -> None:
    """Revoked, expired: its room is free at once."""
    worker = Worker()
    worker.learn(100)
    runs = worker.let_in()
    for run in runs:
        worker.accounts.over((), [run])
    worker.accounts.over((), [10**9])
    assert worker.accounts.state("main").expected.operations == 0
    assert len(worker.let_in()) == len(runs)


def test_a_run_that_counted_nothing_is_free_after_two_readings() -> None:
    """And its kind is known to be cheap."""
    worker = Worker()
    worker.learn(100)
    (run,) = worker.let_in(most=1)
    worker.accounts.over([run], ())
    worker.tick()
    assert worker.accounts.state("main").expected.operations == pytest.approx(100)
    worker.tick()
    assert worker.accounts.state("main").expected.operations == 0
    assert worker.accounts.cost(MAIN, "task").operations < 100


def test_nothing_is_learned_from_counts_that_were_dropped() -> None:
    """Its cost may have been among them."""
    worker = Worker()
    worker.learn(100)
    (run,) = worker.let_in(most=1)
    worker.accounts.over([run], ())
    worker.tick(dropped=1)
    worker.tick(dropped=1)
    assert worker.accounts.state("main").expected.operations == 0
    assert worker.accounts.cost(MAIN, "task").operations == pytest.approx(100)


def test_a_run_that_is_delivered_again_is_expected_once() -> None:
    """A retry has the same task id."""
    worker = Worker()
    worker.learn(10)
    for _ in range(3):
        assert worker.accounts.admit(MAIN, "task", 10**9).admitted
    assert worker.accounts.state("main").expected.operations == pytest.approx(10)


@pytest.mark.parametrize(
    ("policy", "least", "most"),
    [(Policy.OPEN, 5000, 5000), (Policy.CLOSED, 0, 0), (Policy.SAFE, 360, 400)],
)
def test_the_store_is_away(policy: Policy, least: int, most: int) -> None:
    """Open, closed, or half of the last share, by what this process counts alone."""
    worker = Worker(policy=policy)
    worker.learn(1)
    worker.rest(share=0.4)
    for _ in range(5):
        worker.tick(share=None)
    assert worker.accounts.state("main").policy is policy
    begun = 0
    for _ in range(20):
        runs = worker.let_in(most=250)
        begun += len(runs)
        worker.tick(*(ended(run, 1) for run in runs), share=None)
    assert least <= begun <= most


def test_what_the_store_says_is_trusted_for_300_ms() -> None:
    """From when it was asked, and again once it answers."""
    worker = Worker(policy=Policy.CLOSED)
    worker.learn(1)
    worker.now += 0.29
    assert worker.ask()[0].admitted
    worker.now += 0.02
    assert not worker.ask()[0].admitted
    worker.hear()
    assert worker.ask()[0].admitted


def test_who_never_heard_takes_little() -> None:
    """A twentieth of the limit: there may be twenty of them."""
    worker = Worker(policy=Policy.SAFE)
    begun = 0
    for _ in range(50):
        runs = worker.let_in()
        begun += len(runs)
        worker.tick(*(ended(run, 1) for run in runs), share=None)
    assert 100 <= begun <= 250


def test_a_shadow_holds_nothing_and_counts() -> None:
    """What would have been held is told, and expected like the rest."""
    worker = Worker(shadow=True)
    worker.learn(10)
    assert len(worker.let_in(most=500)) == 500
    state = worker.accounts.state("main")
    assert worker.accounts.holding("main").would_hold > 400
    assert state.expected.operations == pytest.approx(5000)


def test_it_wants_what_waits_and_nothing_else() -> None:
    """An idle worker leaves its share to others."""
    worker = Worker()
    worker.learn(10)
    assert worker.accounts.holding("main").want == 0
    worker.accounts.waiting("main", Amount(400))
    assert worker.accounts.holding("main").want == pytest.approx(0.5)


def test_many_workers_take_turns() -> None:
    """One of 16, with twenty runs a second in all, wants a share 5/16 of the time."""
    worker = Worker()
    worker.learn(50)
    worker.accounts.waiting("main", Amount(10_000))
    worker.let_in()
    worker.hear(1 / 16, holders=16)
    wants = []
    for _ in range(200):
        worker.now += PERIOD / 200
        wants.append(worker.accounts.holding("main").want > 0)
    assert 60 <= sum(wants) <= 65


LARGE = 400
"""Operations of a run: 2/5 of the limit, six seconds of the share of one of 16."""


def test_a_run_larger_than_a_second_of_the_share_waits_for_its_turn() -> None:
    """It says what it costs, wants its share all the same, and starts once."""
    worker = Worker()
    worker.learn(LARGE)
    worker.accounts.waiting("main", Amount(10_000))
    worker.rest(share=1 / 16)
    worker.hear(1 / 16, holders=16)
    assert worker.accounts.holding("main").turn == 0
    assert not worker.ask()[0].admitted
    said = worker.accounts.holding("main")
    assert said.turn == pytest.approx(0.4, rel=0.05)
    assert said.want > 0
    worker.hear(1 / 16, holders=16, turn=True)
    assert worker.ask()[0].admitted
    assert not worker.ask()[0].admitted
    worker.now += 0.2
    assert worker.accounts.holding("main").turn == 0  # it owes for the one that runs


def test_a_turn_is_used_soon_or_not_at_all() -> None:
    """A worker that was frozen meanwhile: the next one's turn has come."""
    worker = Worker()
    worker.learn(LARGE)
    worker.rest(share=1 / 16)
    worker.hear(1 / 16, holders=16, turn=True)
    worker.now += 0.21
    assert not worker.ask()[0].admitted


def test_nobody_waits_for_a_turn_that_nobody_gives() -> None:
    """One that is alone, and one before an older service."""
    for holders, turn in ((1, False), (16, None)):
        worker = Worker()
        worker.learn(LARGE)
        worker.rest(share=1 / 16)
        worker.hear(1 / 16, holders=holders, turn=turn)
        assert worker.ask()[0].admitted


def test_while_the_store_is_away_large_runs_do_not_start_together() -> None:
    """Each worker has an instant of its own, once in the time that pays for a run."""
    starts = []
    for number in range(16):
        worker = Worker(phase=number / 16)
        worker.learn(LARGE)
        worker.rest(share=1 / 16)
        worker.hear(1 / 16, holders=16)
        began = worker.now
        while not worker.ask()[0].admitted:
            worker.now += 0.05
            assert worker.now < began + 20
        starts.append(worker.now)
    busiest = max(sum(0 <= one - first < 1 for one in starts) for first in starts)
    assert busiest <= 3


def test_what_opens_a_database_is_news_once() -> None:
    """A first answer, a greater share, a turn, an answer after an outage."""
    worker = Worker()
    for hear, news in (
        ({"share": 0.5}, True),
        ({"share": 0.5}, False),
        ({"share": 0.3}, False),
        ({"share": 0.4}, True),
        ({"share": 0.4, "turn": True}, True),
        ({"share": 0.4}, False),
    ):
        worker.now += 0.1
        worker.hear(**hear)  # type: ignore[arg-type]
        assert worker.accounts.opened() is news
        assert not worker.accounts.opened()
    worker.now += 0.5
    worker.hear(0.1)
    assert worker.accounts.opened()


def test_turns_are_for_those_who_need_them() -> None:
    """A worker that is alone, and one with many small runs, always has its turn."""
    instants = [PERIOD * part / 100 for part in range(100)]
    assert all(has_turn(0.9, 1, 0.3, now) for now in instants)
    assert all(has_turn(0.001, 40, 0.3, now) for now in instants)
    some = sum(has_turn(0.04, 16, 0.3, now) for now in instants)
    assert 38 <= some <= 40


def test_all_together_do_too_much() -> None:
    """A worker with a small share saves up before it adds a large run."""
    worker = Worker()
    worker.learn(10)
    worker.rest(share=0.1)
    worker.hear(0.1, holders=10, traffic=3000)
    assert not worker.ask()[0].admitted
    worker.hear(0.1, holders=10, traffic=500)
    assert worker.ask()[0].admitted


def test_an_unknown_database_is_named() -> None:
    """A route that is checked does not get here."""
    worker = Worker()
    with pytest.raises(Misconfigured, match="'other' is no database with a limit"):
        worker.accounts.admit(Target("other"), "task", 1)


def test_when_to_ask_again() -> None:
    """Soon, and within a second whatever is owed."""
    worker = Worker()
    worker.learn(10)
    worker.let_in()
    admission, _ = worker.ask()
    assert 0 < admission.retry_after < 0.1
    worker.tick(spent=9000)
    admission, _ = worker.ask()
    assert admission == Admission(False, 0.0, 1.0)


def test_what_varies_leaves_room_for_its_variance() -> None:
    """A hundred runs of 10, give or take 10, are not 1,000: one deviation is kept."""
    let_in = []
    for spread in (0, 10):
        worker = Worker()
        for turn in range(60):
            runs = worker.let_in(most=1)
            cost = 10 + spread * (-1) ** turn
            worker.tick(*(ended(run, cost) for run in runs))
        worker.rest()
        begun = 0
        for _ in range(30):
            begun += len(worker.let_in())
            worker.tick()  # they wait in the pool
        cost = worker.accounts.cost(MAIN, "task").operations
        let_in.append(begun * cost)
    assert let_in[0] == pytest.approx(1000, abs=20)
    assert 850 < let_in[1] < 940


def test_a_reading_that_is_late_does_not_stop_the_work() -> None:
    """The rate goes on for as long as the store is trusted."""
    worker = Worker()
    worker.learn(1)
    for _ in range(20):
        runs = worker.let_in()
        worker.tick(*(ended(run, 1) for run in runs))
    begun = 0
    for _ in range(5):
        worker.now += 0.05
        begun += len(worker.let_in())
    assert 230 <= begun <= 340


@pytest.mark.parametrize("holders", [1, 16])
@pytest.mark.parametrize("usual", [1.0, 200.0, 5000.0])
def test_one_run_that_cost_far_more_does_not_shut_the_gate(
    usual: float, holders: int
) -> None:
    """Its kind varies by more than a second holds, and only runs can teach better."""
    worker = Worker(operations=5000.0)
    worker.learn(usual)
    (run,) = worker.let_in(most=1)
    worker.tick(ended(run, usual * 100))
    waits = ticks = 0
    for _ in range(40):
        while not (runs := worker.let_in(most=1)):
            worker.tick(share=1 / holders)
            ticks += 1
            assert ticks < 10_000
        waits += 1
        worker.tick(*(ended(one, usual) for one in runs), share=1 / holders)
    assert waits == 40


def test_runs_that_end_together_teach_what_they_teach_one_by_one() -> None:
    """The same means and the same variances, over more than the memory."""
    ends: list[tuple[Amount, float | None]] = [
        (Amount(float(n % 7), n / 100), None if n % 5 else n / 10) for n in range(60)
    ]
    together, apart = Cost(10.0), Cost(10.0)
    together.learn(ends)
    for end in ends:
        apart.learn([end])
    assert vars_of(together) == vars_of(apart)


def vars_of(cost: Cost) -> list[float]:
    """Return all that is known of a kind."""
    return [getattr(cost, name) for name in Cost.__slots__]


def test_runs_that_no_reading_tells_of_are_free_at_once_together() -> None:
    """What was expected of them comes back, however many there are of a kind."""
    worker = Worker()
    worker.learn(10)
    runs = worker.let_in()
    assert len(runs) > 1
    worker.accounts.over(runs, ())
    worker.tick()
    worker.tick()
    assert worker.accounts.state("main").expected == Amount()


def test_what_tasks_cost_outlives_a_worker() -> None:
    """The next one lets in as much as it may from its first second on."""
    before = Worker()
    before.learn(20)
    after, blind = Worker(), Worker()
    after.accounts.recall("main", before.accounts.remember("main", ""))
    for worker in (after, blind):
        worker.rest(share=1.0)
    assert after.accounts.cost(MAIN, "task").operations == pytest.approx(20, rel=0.1)
    assert [len(after.let_in()) > 1, len(blind.let_in())] == [True, 1]


def test_ones_own_word_counts_for_more_than_others() -> None:
    """What is recalled late changes nothing that was learned here."""
    worker = Worker()
    worker.learn(10)
    cost = worker.accounts.cost(MAIN, "task")
    other = Worker()
    other.learn(300)
    worker.accounts.recall("main", other.accounts.remember("main", ""))
    assert worker.accounts.cost(MAIN, "task") == cost


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "1", '{"t": 1}', '{"t": [1, 2]}'),
        *('{"t": [-1, 0, 0, 0, 0, 9]}', '{"t": [1e99, 0, 0, 0, 0, 9]}'),
        *('{"t": ["1", 0, 0, 0, 0, 9]}', '{"t": [NaN, 0, 0, 0, 0, 9]}'),
        '{"t": [true, 0, 0, 0, 0, 9]}',
    ],
)
def test_what_makes_no_sense_is_not_recalled(text: str) -> None:
    """Whoever wrote it: the worker learns for itself."""
    assert costs.read(text) == {}


def test_what_is_kept_is_bounded() -> None:
    """A thousand tasks of a database; those that ran last."""
    known = {f"t{n}": Cost(1.0, runs=9) for n in range(costs.MOST_KEPT)}
    text = costs.written({"new": Cost(2.0, runs=9)}, costs.written(known))
    found = costs.read(text)
    assert len(found) == costs.MOST_KEPT
    assert found["new"].operations == 2.0


def test_runs_let_in_ahead_are_counted_when_they_come() -> None:
    """And what was taken for the others is given back at the next reading."""
    worker = Worker(operations=100_000)
    worker.learn(1)
    worker.rest(share=1.0)
    room = worker.accounts.state("main").expected
    assert room == Amount()
    runs = [next(worker.numbers) for _ in range(10)]
    assert all(worker.accounts.enter(MAIN, "task", run) for run in runs)
    ahead = worker.accounts.state("main").expected.operations
    assert ahead > 20  # ten, and those that may come
    before = worker.accounts.holding("main").admitted
    worker.accounts.over((), runs)
    worker.tick()
    told = worker.accounts.holding("main")
    assert worker.accounts.state("main").expected.operations == pytest.approx(
        0, abs=1e-6
    )
    assert told.admitted - before == 9  # the first was counted as it came
    assert told.tenants == {"acme": (0, told.admitted)}


def test_what_was_let_in_ahead_is_void_when_the_store_is_away() -> None:
    """Then the policy decides."""
    worker = Worker(operations=100_000, policy=Policy.CLOSED)
    worker.learn(1)
    worker.rest(share=1.0)
    assert worker.accounts.enter(MAIN, "task", next(worker.numbers))
    worker.now += 0.31
    assert not worker.accounts.enter(MAIN, "task", next(worker.numbers))
