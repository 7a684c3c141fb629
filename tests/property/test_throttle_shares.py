"""Shares are never more together than there is, whatever is lost, frozen or forgotten.

Told from the holders' side: what each of them believes at a moment, by its own clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from tests.oracle.shares import fair
from tests.oracle.store import Oracle
from throttle.model import STALE, Amount, DatabaseReport, Holding, Report, Sample

LIMIT = Amount(1000)
TINY = 1e-5
"""Shares are told in millionths."""


@dataclass
class Worker:
    """What a holder believes."""

    share: float = 0.0
    asked: float = -10.0
    """When it sent the question whose answer it believes."""
    answered: bool = True

    def believes(self, now: float) -> float:
        """Return its share; an answer that is stale is believed no more."""
        return self.share if now - self.asked <= STALE else 0.0


@dataclass
class Cluster:
    """Workers around a store, with their clock and that of Redis apart."""

    now: float = 1000.0
    ahead: float = 1_800_000_000.0
    workers: dict[str, Worker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Redis comes back without its data."""
        self.oracle = Oracle(lambda: self.now + self.ahead)
        self.factor = 1.0

    def ask(self, name: str, want: float, *, lost: bool = False) -> float:
        """A worker asks for its share; the answer is lost, or believed."""
        worker = self.workers.setdefault(name, Worker())
        holding = Holding(want=want, limit=LIMIT)
        report = Report(
            holder=name, name=name, databases={"main": DatabaseReport(holding=holding)}
        )
        others = self.believed() - worker.believes(self.now)
        seen = self.oracle.exchange(report, answered=worker.answered).databases["main"]
        # However little there is now: not more than others believe to have is given.
        assert seen.share <= max(seen.factor - others, 0.0) + TINY
        worker.answered = not lost
        if not lost:
            worker.share, worker.asked = seen.share, self.now
        return seen.share

    def believed(self) -> float:
        """Return what all of them believe to have together."""
        return sum(worker.believes(self.now) for worker in self.workers.values())


names = st.sampled_from("abcd")
wants = st.sampled_from((0.0, 0.05, 0.2, 0.5, 1.0, 3.0))
waits = st.one_of(st.floats(0.0, 0.15), st.floats(0.0, 1.5))
events = st.one_of(
    st.tuples(st.just("ask"), names, wants, st.booleans()),
    st.tuples(st.just("ask"), names, wants, st.just(False)),
    st.tuples(st.just("round"), wants),
    st.tuples(st.just("wait"), waits),
    st.tuples(st.just("restart")),
    st.tuples(st.just("step"), st.floats(-100, 100)),
    st.tuples(st.just("lower"), st.floats(0, 1)),
)


ASKS = ("ask", "b", 3.0, False)
ALL_HIS = [("ask", "a", 3.0, False), ("wait", 0.45), ("ask", "a", 3.0, False)]
"""One worker has the whole limit."""


@given(trace=st.lists(events, max_size=60))
@example([*ALL_HIS, ASKS, ("ask", "a", 3.0, True), ASKS])
@example([*ALL_HIS, ASKS, ("ask", "a", 3.0, True), ("ask", "a", 3.0, True), ASKS])
@example([*ALL_HIS, ("wait", 0.05), ASKS, ("step", 0.96), ("wait", 0.02), ASKS])
@example([("round", 3.0), ("wait", 0.45), ("round", 3.0), ("restart",), ("round", 3.0)])
@example([("round", 3.0), ("wait", 0.45), ("round", 3.0), ("step", 50.0)])
def test_what_all_believe_is_never_more_than_there_is(trace: list[tuple]) -> None:  # type: ignore[type-arg]
    """Answers are lost, workers freeze, Redis loses its data, clocks are stepped."""
    cluster = Cluster()
    stepped = -10.0
    ceiling = 1.0
    for kind, *words in trace:
        if kind == "ask":
            name, want, lost = words
            cluster.ask(name, want, lost=lost)
        elif kind == "round":
            for name in "abcd":
                cluster.ask(name, words[0])
        elif kind == "wait":
            cluster.now += words[0]
        elif kind == "restart":
            cluster.restart()
        elif kind == "step" and cluster.now - stepped > 2:
            # Twice within a second it could be led to forget somebody too early.
            cluster.ahead += words[0]
            stepped = cluster.now
        elif kind == "lower":
            cluster.oracle.lower("main", words[0], "slow", 0.5)
        assert cluster.believed() <= ceiling + TINY


def rounds(cluster: Cluster, wanted: dict[str, float], number: int) -> None:
    """Everybody asks in each tick, one after the other."""
    for _ in range(number):
        for name, want in wanted.items():
            cluster.now += 0.1 / len(wanted)
            cluster.ask(name, want)


@given(
    before=st.dictionaries(names, wants, max_size=6),
    wanted=st.dictionaries(names, wants, min_size=1, max_size=6),
)
def test_after_some_ticks_all_is_given_out_and_fair(
    before: dict[str, float], wanted: dict[str, float]
) -> None:
    """Nobody starves, and what one does not want another has."""
    cluster = Cluster()
    rounds(cluster, before, 8)
    gone = [name for name in before if name not in wanted]
    rounds(cluster, wanted, 5 if not gone else 15)
    shares = {name: cluster.workers[name].believes(cluster.now) for name in wanted}
    assert 1 - TINY <= sum(shares.values()) <= 1 + TINY
    level = 1 / len(wanted)
    for name, want in wanted.items():
        assert shares[name] >= min(want, level) - TINY
        for other, wanted_too in wanted.items():
            # Who wants as much has no less, unless it has all that it wants.
            if wanted_too >= want:
                assert shares[other] >= min(shares[name], wanted_too) - TINY


@given(
    available=st.integers(0, 10**6),
    given_wants=st.lists(st.integers(0, 10**6), min_size=1, max_size=12),
)
def test_fair_parts_are_never_more_than_there_is(
    available: int, given_wants: list[int]
) -> None:
    """And all of it but a remainder of whole numbers is given out."""
    parts = [
        fair(available, want, given_wants[:i] + given_wants[i + 1 :])
        for i, want in enumerate(given_wants)
    ]
    assert available - 2 * len(parts) <= sum(parts) <= available


def test_one_who_has_been_idle_can_begin_at_once() -> None:
    """What is left over is lent out before anybody asks for it."""
    cluster = Cluster()
    rounds(cluster, {"busy": 0.6, "idle": 0.0}, 10)
    assert cluster.workers["idle"].share >= 0.2 - TINY


def test_what_comes_from_outside_is_nobodys() -> None:
    """A web process takes 300 of 1000: 0.7 are left for workers."""
    cluster = Cluster()
    sample = Sample(0.0, Amount(30))
    told = {"main": DatabaseReport(samples=(sample,))}
    for _ in range(40):
        cluster.oracle.exchange(Report(holder="web", name="web", databases=told))
        rounds(cluster, {"a": 1.0, "b": 1.0}, 1)
    assert sum(w.share for w in cluster.workers.values()) <= 0.7 + TINY
    assert sum(w.share for w in cluster.workers.values()) >= 0.7 - 0.01


def test_the_silent_are_forgotten_after_a_second() -> None:
    """Their share goes to those who are there."""
    cluster = Cluster()
    rounds(cluster, {"a": 1.0, "b": 1.0}, 10)
    rounds(cluster, {"a": 1.0}, 9)
    assert cluster.workers["a"].share <= 0.5 + TINY
    rounds(cluster, {"a": 1.0}, 3)
    assert cluster.workers["a"].share == 1
