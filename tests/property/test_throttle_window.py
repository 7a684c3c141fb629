"""What the scripts do in Redis is what the oracle says, on any trace.

Processes come and go, report late and twice, answers are lost, the clock of Redis is
stepped back and forth, the limit is lowered: each answer must be equal to the last bit.
"""

from __future__ import annotations

import secrets

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.oracle.store import Oracle
from tests.services import RedisStand
from throttle.model import Amount, DatabaseReport, Estimator, Holding, Report, Sample
from throttle.store.redis import RedisStore

DATABASES = ("main", "a:b%3A", "Ü ")
HOLDERS = ("one", "two", "three:3", "")

amounts = st.builds(
    Amount,
    st.one_of(st.integers(0, 5000).map(float), st.floats(0, 1e12)),
    st.floats(0, 30),
    st.integers(0, 10**6).map(float),
)
samples = st.builds(
    Sample,
    st.one_of(st.floats(0, 0.3), st.floats(-1, 100)),
    amounts,
    st.one_of(st.just(0.1), st.floats(0, 20)),
)
holdings = st.builds(
    Holding,
    want=st.one_of(st.just(0.0), st.floats(0, 3), st.floats(0, 1e9)),
    limit=st.builds(
        Amount,
        st.floats(1, 10_000),
        st.one_of(st.just(0.0), st.just(float("inf")), st.floats(0.1, 100)),
        st.just(0.0),
    ),
    turn=st.sampled_from((0.0, 0.0, 0.3, 1.0, 40.0)),
    held=st.integers(0, 10**6),
    oldest=st.floats(0, 100),
    tenants=st.dictionaries(st.text(max_size=3), st.just((1, 2)), max_size=2),
)
told = st.builds(
    DatabaseReport,
    samples=st.lists(samples, max_size=3).map(tuple),
    holding=st.one_of(st.none(), holdings),
)
exchanges = st.tuples(
    st.just("exchange"),
    st.sampled_from(HOLDERS),
    st.dictionaries(st.sampled_from(DATABASES), told, max_size=3),
    st.sampled_from(("new", "again", "overtaken", "none")),
    st.booleans(),
)
streams = st.tuples(
    st.just("stream"),
    st.sampled_from(HOLDERS),
    st.lists(st.sampled_from((0, 10, 1000)), min_size=5, max_size=30),
)
contests = st.tuples(
    st.just("contest"),
    st.lists(
        st.tuples(
            st.sampled_from(HOLDERS),
            st.sampled_from((0.0, 0.1, 0.3, 0.7, 2.0)),
            st.booleans(),
        ),
        min_size=5,
        max_size=30,
    ),
)
turns = st.tuples(
    st.just("queue"),
    st.lists(
        st.tuples(
            st.sampled_from(HOLDERS),
            st.sampled_from((0.0, 0.1, 0.4, 3.0, 30.0)),
            st.sampled_from((0.0, 400.0, 1500.0)),
            st.sampled_from((0.03, 0.1, 0.4)),
        ),
        min_size=5,
        max_size=30,
    ),
)
steps = st.one_of(
    exchanges,
    exchanges,
    streams,
    contests,
    turns,
    st.tuples(
        st.just("wait"),
        st.one_of(st.floats(0, 0.2), st.floats(0, 5), st.floats(-30, 3600)),
    ),
    st.tuples(st.just("wait"), st.just(0.45)),
    st.tuples(
        st.just("lower"),
        st.sampled_from(DATABASES),
        st.floats(-1, 2),
        st.text(st.characters(codec="utf-8"), max_size=5),
        st.floats(0, 5),
    ),
    st.tuples(
        st.just("adjust"),
        st.sampled_from(DATABASES),
        st.floats(0, 3),
        st.sampled_from(("", "3/s by ü")),
        st.floats(0, 5),
    ),
    st.tuples(
        st.just("elect"),
        st.sampled_from(DATABASES),
        st.sampled_from(HOLDERS),
        st.floats(0, 5),
    ),
)


class Twins:
    """The store in Redis and the oracle, told the same at the same time."""

    def __init__(self, url: str, estimator: Estimator) -> None:
        self.now = 1_800_000_000.0
        self.store = RedisStore(
            url,
            prefix=f"t{secrets.token_hex(6)}",
            estimator=estimator,
            now=lambda: self.now,
            timeout=10,
        )
        self.oracle = Oracle(lambda: self.now, estimator=estimator)
        self.numbers: dict[str, int] = {}

    def step(self, kind: str, *given: object) -> None:
        """Both do it, and answer the same."""
        getattr(self, kind)(*given)
        assert self.store.look() == self.oracle.look()

    def wait(self, seconds: float) -> None:
        """The clock of Redis moves, backwards perhaps."""
        self.now += seconds

    def exchange(
        self, holder: str, databases: dict[str, DatabaseReport], number: str, lost: bool
    ) -> None:
        """A process reports; its number is new, or that of one of its last reports."""
        if number == "new":
            self.numbers[holder] = self.numbers.get(holder, 0) + 1
        last = self.numbers.get(holder, 0)
        numbers = {"none": 0, "overtaken": max(last - 1, 0)}
        report = Report(
            holder=holder,
            name=f"name of {holder}",
            databases=databases,
            number=numbers.get(number, last),
        )
        answered = holder not in self.store._unanswered
        expected = self.oracle.exchange(report, answered=answered)
        assert self.store.exchange(report) == expected
        if lost:
            self.store._unanswered.add(holder)

    def stream(self, holder: str, counts: list[int]) -> None:
        """A process reports tick after tick."""
        for count in counts:
            self.now += 0.1
            told = DatabaseReport(
                samples=(Sample(0.004, Amount(count, count / 10, count)),)
            )
            self.exchange(holder, {"main": told}, "new", False)

    def contest(self, turns: list[tuple[str, float, bool]]) -> None:
        """Holders want parts of one limit; some answers are lost."""
        for holder, want, lost in turns:
            self.now += 0.03
            told = DatabaseReport(holding=Holding(want=want, limit=Amount(1000)))
            self.exchange(holder, {"main": told}, "new", lost)

    def queue(self, asks: list[tuple[str, float, float, float]]) -> None:
        """Holders wait for their turn, and do what they do meanwhile."""
        for holder, turn, spent, waited in asks:
            self.now += waited
            told = DatabaseReport(
                samples=(Sample(0.0, Amount(spent)),) if spent else (),
                holding=Holding(want=1.0, limit=Amount(1000, 5), turn=turn),
            )
            self.exchange(holder, {"main": told}, "new", False)

    def lower(self, database: str, factor: float, why: str, seconds: float) -> None:
        """The second signal speaks."""
        self.store.lower(database, factor, why, seconds)
        self.oracle.lower(database, factor, why, seconds)

    def adjust(self, database: str, factor: float, why: str, seconds: float) -> None:
        """A person sets a limit."""
        self.store.adjust(database, factor, why, seconds)
        self.oracle.adjust(database, factor, why, seconds)

    def elect(self, database: str, holder: str, seconds: float) -> None:
        """Somebody wants to watch."""
        assert self.store.elect(database, holder, seconds) == self.oracle.elect(
            database, holder, seconds
        )


HAS_ALL = [("one", 3.0, False)] * 16
LOST = [("two", 3.0, False), ("one", 3.0, True), ("two", 3.0, False)]
"""One who has all is given less, and does not hear it: it still believes in all."""


@pytest.mark.parametrize("estimator", Estimator)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trace=st.lists(steps, max_size=40))
@example([("contest", HAS_ALL + LOST)])
def test_redis_answers_as_the_oracle_does(
    redis_server: RedisStand, estimator: Estimator, trace: list[tuple[object, ...]]
) -> None:
    """To the last bit, after each step."""
    twins = Twins(redis_server.url, estimator)
    try:
        for kind, *given_ in trace:
            twins.step(str(kind), *given_)
    finally:
        twins.store.close()
