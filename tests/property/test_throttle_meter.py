"""Laws of the meter: whatever happens between two readings, each count is told once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.kernel import shared_memory
from throttle.meter import RowCounts
from throttle.meter.cells import NANOSECONDS, OPERATIONS, ROWS, STARTED, WIDTH
from throttle.meter.rows import RING, Shared, size
from throttle.meter.thread_cells import DeltaReader, Sums, ThreadCells

NAMES = st.sampled_from(["a", "b", "c", "ü" * 30])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("count"), NAMES, st.integers(0, 3)),
        st.tuples(st.just("begin"), st.integers(1, 1 << 62)),
        st.tuples(st.just("end")),
        st.tuples(st.just("read")),
        st.tuples(st.just("replaced"), st.permutations(["a", "b", "c"])),
        st.tuples(st.just("thread")),
        st.tuples(st.just("leave")),
    ),
    max_size=60,
)


class World:
    """A row, its child of the moment, and what should come of it."""

    def __init__(self) -> None:
        self.shared = Shared(shared_memory.make(size(1)))
        self.reader = self.shared.row(0)
        self.now = 1
        self.true: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.run = 0
        self.cost: Counter[str] = Counter()
        self.ended: list[tuple[int, str, int]] = []
        self.answered: list[tuple[int, str, int]] = []
        self.replace([])

    def replace(self, names: list[str]) -> None:
        """Another process takes the row."""
        self.child = RowCounts(self.shared.row(0))
        self.threads: list[ThreadCells] = [self.child.add_thread()]
        for name in names:
            self.child.place(name)
        self.run = 0

    def do(self, what: str, *given: object) -> None:
        """One thing happens."""
        self.now += 10
        if what == "count":
            name, rows = str(given[0]), int(str(given[1]))
            cells = self.threads[-1].cells
            at = self.child.place(name)
            cells[at + OPERATIONS] += 1
            cells[at + ROWS] += rows
            self.true[name] += 1
            self.cost[name] += 1
        elif what == "begin" and not self.run:
            self.run = int(str(given[0]))
            self.child.begin(self.threads[0], self.run, self.now)
            self.cost = Counter()
        elif what == "end" and self.run:
            self.child.end(self.threads[0], self.now)
            self.ended += [(self.run, name, n) for name, n in self.cost.items()]
            self.run = 0
        elif what == "read":
            self.read()
        elif what == "replaced":
            self.replace(list(given[0]))  # type: ignore[call-overload]
        elif what == "thread":
            self.threads.append(self.child.add_thread())
        elif what == "leave" and len(self.threads) > 1:
            self.child.remove_thread(self.threads.pop())

    def read(self) -> None:
        """The parent reads, and hears of the open run what it has cost so far."""
        sums = Sums()
        self.reader.read(sums, self.now)
        reading = sums.reading()
        assert reading.dropped == 0
        for name, amount in reading.databases.items():
            self.told[name] += int(amount.operations)
        running = {r.database: r.amount.operations for r in reading.runs if not r.ended}
        assert running == (dict(self.cost) if self.run else {})
        self.answered += [
            (r.run, r.database, int(r.amount.operations))
            for r in reading.runs
            if r.ended
        ]


@given(STEPS)
def test_each_count_and_each_ended_run_is_told_once(
    steps: list[tuple[object, ...]],
) -> None:
    """Through threads that come and go, and children that take over the row."""
    world = World()
    for what, *given_ in steps:
        world.do(str(what), *given_)
    world.read()
    assert world.told == +world.true
    assert sorted(world.answered) == sorted(world.ended)
    assert len(world.answered) <= RING


@given(
    st.lists(
        st.tuples(st.sampled_from(["start", "end", "half", "read"]), st.integers(1, 9))
    )
)
def test_seconds_are_told_as_they_pass_and_sum_up(steps: list[tuple[str, int]]) -> None:
    """Never backwards, never more than passed, and all of it in the end.

    Also if the reader comes between the two writes that end a statement.
    """
    cells, reader = [0] * (2 * WIDTH), DeltaReader()
    now, started, true, told = 1, 0, 0, 0

    def read() -> int:
        return sum(new[2] for new in reader.read(list(cells), now))

    for what, passed in steps:
        now += passed
        if what == "start" and not started:
            cells[WIDTH + STARTED] = started = now
        elif what in {"end", "half"} and started:
            cells[WIDTH + STARTED] = 0
            if what == "half":
                new = read()
                assert new >= 0
                told += new
            cells[WIDTH + NANOSECONDS] += now - started
            true += now - started
            started = 0
        elif what == "read":
            new = read()
            assert new >= 0
            told += new
        assert told <= true + (now - started if started else 0)
    cells[WIDTH + STARTED] = 0
    if started:
        cells[WIDTH + NANOSECONDS] += now - started
        true += now - started
    assert told + read() == true
