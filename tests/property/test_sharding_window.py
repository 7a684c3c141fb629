"""A killer among items is found, alone, whatever the rest of the world does."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from celery_sharding.runner.window import DEATHS, PARTS, WHOLE, Window

FLUSH = 0.5


@dataclass
class Row:
    """What the ledger has of a shard."""

    count: int
    cursor: int = 0
    ahead: int = 0
    deaths: int = 0

    def write(self, cursor: int, ahead: int) -> None:
        """Store a step; a cursor that moves clears the deaths."""
        if cursor != self.cursor:
            self.deaths = 0
        self.cursor, self.ahead = cursor, ahead


@dataclass
class World:
    """A shard, processes that run it, and what kills them."""

    count: int
    killers: set[int]
    rate: float
    every: int
    """Items after which a flush is due."""
    random_deaths: list[int] = field(default_factory=list)
    """Items that are begun until a process is killed for nothing, one by one."""
    blamed: list[int] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    deaths: int = 0

    def run(self) -> Row:
        """Run the shard in process after process, until it has ended."""
        row = Row(self.count)
        while row.cursor < self.count:
            if not self.live(row):
                row.deaths += 1
                self.deaths += 1
        return row

    def live(self, row: Row) -> bool:
        """Run until the end or until death; whether it was the end."""
        window = Window(
            cursor=row.cursor, ahead=row.ahead, deaths=row.deaths, count=row.count
        )
        cursor = row.cursor
        if window.guilty is not None:
            assert window.guilty == cursor
            self.blamed.append(cursor)
            cursor += 1
        left = self.random_deaths.pop(0) if self.random_deaths else None
        while cursor < row.count:
            if cursor >= window.limit or (cursor and not cursor % self.every):
                row.write(cursor, window.forward(cursor, rate=self.rate, flush=FLUSH))
                assert cursor < row.ahead <= row.count
            if left is not None:
                left -= 1
            self.begun.append(cursor)
            # What may have been begun is what the ledger says: nothing beyond it.
            assert row.ahead <= row.cursor or cursor < row.ahead
            if cursor in self.killers or left == 0:
                return False
            cursor += 1
        row.write(cursor, row.ahead)
        return True


worlds = st.integers(1, 300).flatmap(
    lambda count: st.builds(
        World,
        count=st.just(count),
        killers=st.sets(st.integers(0, count - 1), max_size=4),
        rate=st.sampled_from([0.0, 1.0, 40.0, 1e6]),
        every=st.integers(1, 400),
    )
)


@given(worlds)
@example(World(count=1, killers={0}, rate=0.0, every=1))
@example(World(count=300, killers={0, 1, 298, 299}, rate=1e6, every=400))
def test_killers_are_found_and_nobody_else(world: World) -> None:
    """Each in a number of deaths that is a logarithm; the others all run."""
    world.run()
    assert world.blamed == sorted(world.killers)
    assert set(world.begun) == set(range(world.count))
    # One more: first it is claimed alone, for it had company in its first process.
    allowed = math.ceil(math.log(world.count, PARTS)) + DEATHS + 1
    assert world.deaths <= allowed * len(world.killers)


@given(worlds, st.data())
def test_two_deaths_for_nothing_are_nobody_s_fault(
    world: World, data: st.DataObject
) -> None:
    """Machines die too: an innocent item is not blamed for what two of them did."""
    world.killers = set()
    world.random_deaths = data.draw(
        st.lists(st.integers(1, world.count), max_size=DEATHS - 1)
    )
    world.run()
    assert world.blamed == []


@pytest.mark.parametrize("deaths", range(DEATHS))
@pytest.mark.parametrize("suspects", range(3))
def test_before_the_third_death_nobody_is_blamed(deaths: int, suspects: int) -> None:
    """Not even an item that was the only one begun: a long one meets two rollouts."""
    window = Window(cursor=5, ahead=5 + suspects, deaths=deaths, count=100)
    assert window.guilty is None


@given(st.integers(1, 10_000), st.integers(0, 9_999))
def test_a_shard_that_cannot_be_read_is_blamed_as_a_whole(
    count: int, cursor: int
) -> None:
    """Who dies before anything is written down makes no suspects fewer."""
    row = Row(count, min(cursor, count - 1))
    guilty = None
    while guilty is None:
        row.deaths += 1
        assert row.deaths <= DEATHS + math.ceil(math.log(count, PARTS))
        window = Window(
            cursor=row.cursor, ahead=row.ahead, deaths=row.deaths, count=count
        )
        guilty = window.guilty
    assert guilty == (row.cursor if row.count - row.cursor == 1 else WHOLE)


def test_a_shard_nobody_died_over_needs_no_write() -> None:
    """Ten thousand short shards would be ten thousand writes more."""
    window = Window(cursor=0, ahead=0, deaths=0, count=100)
    assert window.limit == 100
    assert not window.isolating(0)
    assert window.forward(10, rate=20, flush=FLUSH) == 30


def test_with_slow_items_nobody_but_the_one_in_hand_is_suspect() -> None:
    """Then a death costs most."""
    window = Window(cursor=0, ahead=0, deaths=0, count=100)
    assert window.forward(0, rate=0.0, flush=FLUSH) == 1
    again = Window(cursor=0, ahead=1, deaths=1, count=100)
    assert again.isolating(0)
    assert again.limit == 0


def test_after_the_search_it_grows_back() -> None:
    """By doubling, until it lasts as long as it should."""
    window = Window(cursor=0, ahead=33, deaths=1, count=1000)
    limits = []
    cursor = 0
    for _ in range(17):
        assert window.isolating(cursor) == (cursor < 33)
        cursor = window.forward(cursor, rate=50, flush=FLUSH)
        limits.append(cursor)
    assert limits[:11] == [*range(3, 34, 3)]
    assert limits[11:] == [39, 51, 75, 123, 173, 223]
