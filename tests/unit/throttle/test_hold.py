"""What waits: whose turn it is, what is counted, where it is full."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from throttle.hold import Hold
from throttle.model import Admission, Amount, Limit, Target

YES = Admission(True, 1.0, 0.0)
NO = Admission(False, 0.0, 0.1)
LIMITS = {
    "main": Limit(database="main", operations=100.0, tenants={"big": 3.0}),
    "other": Limit(database="other", operations=100.0),
}


class Item:
    """Neither hashable nor equal to anything: like a request of Celery's."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        raise AssertionError


class Clock:
    """Shows what the test says."""

    now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Give a clock at zero."""
    return Clock()


@pytest.fixture
def hold(clock: Clock) -> Hold[Item]:
    """Give an empty hold for 1,000 messages and 10,000 bytes."""
    return Hold(LIMITS, max_messages=1000, max_bytes=10_000, clock=clock)


def put(
    hold: Hold[Item],
    tenant: str,
    *names: str,
    database: str = "main",
    priority: int = 0,
    cost: float = 1.0,
) -> list[Item]:
    """So many items of a tenant wait."""
    items = [Item(name) for name in names]
    for item in items:
        target = Target(database, tenant)
        hold.put(target, item, size=10, priority=priority, cost=Amount(cost))
    return items


def taken(hold: Hold[Item], most: int = 1000, database: str = "main") -> list[str]:
    """Take so many; return their names."""
    given = iter(range(most))

    def admit(_: Item) -> Admission:
        return YES if next(given, None) is not None else NO

    return [item.name for item in hold.take(database, admit)]


def test_first_in_first_out(hold: Hold[Item]) -> None:
    """Within a tenant."""
    put(hold, "a", "1", "2", "3")
    assert taken(hold, 2) == ["1", "2"]
    put(hold, "a", "4")
    assert taken(hold) == ["3", "4"]


def test_the_smaller_priority_goes_first(hold: Hold[Item]) -> None:
    """Whenever it came."""
    put(hold, "a", "late", priority=5)
    put(hold, "a", "soon", "next", priority=1)
    put(hold, "a", "now", priority=0)
    assert taken(hold) == ["now", "soon", "next", "late"]


def test_tenants_take_turns_by_cost_and_weight(hold: Hold[Item]) -> None:
    """A thousand of one do not delay the ten of another."""
    put(hold, "many", *["many"] * 100)
    put(hold, "few", *["few"] * 10)
    assert taken(hold, 20).count("few") == 10
    put(hold, "dear", *["dear"] * 20, cost=9.0)
    assert 1 <= taken(hold, 20).count("dear") <= 3
    put(hold, "big", *["big"] * 100)
    first = taken(hold, 40)
    assert first.count("big") / first.count("many") == pytest.approx(3, rel=0.15)


def test_who_was_away_has_saved_nothing_up(hold: Hold[Item]) -> None:
    """And who has just been served has not forgotten it."""
    put(hold, "a", *["a"] * 60)
    taken(hold, 50)
    put(hold, "b", *["b"] * 60)
    assert abs(taken(hold, 10).count("b") - 5) <= 1


def test_to_come_and_go_gains_nothing(hold: Hold[Item]) -> None:
    """A tenant that never has more than one item waiting gets no more than another."""
    put(hold, "line", *["line"] * 100)
    served = []
    put(hold, "one", "one", cost=5.0)
    for _ in range(60):
        (name,) = taken(hold, 1)
        served.append(name)
        if name == "one":
            put(hold, "one", "one", cost=5.0)
    assert 9 <= served.count("one") <= 11


def test_it_stops_where_nothing_more_is_admitted(hold: Hold[Item]) -> None:
    """What was asked for and refused goes on waiting, first."""
    put(hold, "a", "1", "2")
    assert taken(hold, 0) == []
    assert len(hold) == 2
    assert taken(hold, 1) == ["1"]


def test_who_takes_may_stop(hold: Hold[Item]) -> None:
    """What was not given waits on."""
    put(hold, "a", "1", "2", "3")
    for item in hold.take("main", lambda _: YES):
        assert item.name == "1"
        break
    assert [item.name for item in hold.items()] == ["2", "3"]


def test_what_is_given_may_come_back(hold: Hold[Item]) -> None:
    """And others may come and go, in the middle of taking."""
    put(hold, "a", "1", "2", "3")
    seen = []
    for item in hold.take("main", lambda _: YES):
        seen.append(item.name)
        if item.name == "1":
            put(hold, "a", "4")
            hold.remove(hold.items()[0])
    assert seen == ["1", "3", "4"]


def test_databases_do_not_wait_for_each_other(hold: Hold[Item]) -> None:
    """One is shut, the other goes on."""
    put(hold, "a", "1")
    put(hold, "a", "2", database="other")
    assert taken(hold, database="other") == ["2"]
    assert list(hold.databases) == ["main"]


def test_nobody_overtakes(hold: Hold[Item]) -> None:
    """While something waits for its database a newcomer waits too."""
    assert not hold.must_wait(Target("main", "a"))
    (item,) = put(hold, "a", "1")
    assert hold.must_wait(Target("main", "a"))
    assert hold.must_wait(Target("main", "b"))
    assert not hold.must_wait(Target("other", "a"))
    hold.remove(item)
    assert not hold.must_wait(Target("main", "a"))


def test_what_is_removed_does_not_come(hold: Hold[Item]) -> None:
    """It was revoked; again is no error."""
    one, two, three = put(hold, "a", "1", "2", "3")
    assert hold.remove(two)
    assert not hold.remove(two)
    assert not hold.remove(Item())
    assert hold.remove(one)
    assert taken(hold) == ["3"]
    assert not hold.remove(three)
    assert (len(hold), hold.bytes) == (0, 0)


def test_an_item_waits_once(hold: Hold[Item]) -> None:
    """Put again, it keeps its place."""
    (item,) = put(hold, "a", "1")
    hold.put(Target("other"), item, size=10)
    assert (len(hold), hold.bytes) == (1, 10)
    assert taken(hold) == ["1"]


def test_counts(hold: Hold[Item], clock: Clock) -> None:
    """Of each database, for the report."""
    put(hold, "a", "1", "2", cost=2.0)
    clock.now = 5.0
    put(hold, "b", "3", cost=0.5)
    clock.now += 2.0
    waiting = hold.waiting("main")
    assert (waiting.count, waiting.bytes, waiting.oldest) == (3, 30, 7.0)
    assert waiting.cost.operations == pytest.approx(4.5)
    assert waiting.tenants == {"a": 2, "b": 1}
    taken(hold, 1)
    taken(hold, 1)
    assert hold.waiting("main").oldest == 7.0
    taken(hold)
    assert hold.waiting("main").cost == Amount()
    assert hold.waiting("main").oldest == 0.0
    assert hold.waiting("main").tenants == {}


def test_it_is_full_by_messages() -> None:
    """What comes then is the caller's to send on; it is not lost here."""
    few: Hold[Item] = Hold(LIMITS, max_messages=2, max_bytes=1000)
    full = []
    for name in "123":
        put(few, "a", name)
        full.append(few.full)
    assert full == [False, True, True]
    assert len(few) == 3


def test_bytes_count_over_all_databases() -> None:
    """And what leaves makes room."""
    small: Hold[Item] = Hold(LIMITS, max_messages=1000, max_bytes=30)
    full = []
    for database in ("main", "main", "other"):
        put(small, "a", "1", database=database)
        full.append(small.full)
    taken(small, 1)
    full.append(small.full)
    assert full == [False, False, True, False]


def test_all_are_known_oldest_first_and_can_be_cleared(hold: Hold[Item]) -> None:
    """The broker redelivers what was held when a connection is lost."""
    put(hold, "a", "1", "2")
    put(hold, "b", "3")
    put(hold, "b", "4", database="other")
    assert [item.name for item in hold.items()] == ["1", "2", "3", "4"]
    hold.clear()
    assert (len(hold), hold.bytes, hold.items()) == (0, 0, [])
    put(hold, "a", "5")
    assert taken(hold) == ["5"]


def test_tenants_that_are_gone_take_no_room() -> None:
    """A thousand tenants came, one by one, and left."""
    hold: Hold[Item] = Hold(LIMITS, max_messages=10, max_bytes=1000)
    for number in range(1000):
        put(hold, str(number), "1")
        taken(hold)
    assert len(hold._lanes["main"]._tenants) <= 1


def test_twenty_thousand_cost_little_memory() -> None:
    """Beside what the messages take themselves."""
    items = [Item() for _ in range(20_000)]
    hold: Hold[Item] = Hold(LIMITS, max_messages=20_000, max_bytes=10**9)
    gc.collect()
    tracemalloc.start()
    for number, item in enumerate(items):
        target = Target("main", f"tenant-{number % 50}")
        hold.put(target, item, size=1000, cost=Amount(10.0))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert hold.full
    assert size / len(items) < 1000
