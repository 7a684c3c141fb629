"""Counts of threads, runs and forked processes: nothing lost, nothing told twice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing import Barrier, Event
from typing import Any

import pytest

from celery_pecker.testing import eventually
from throttle.errors import Misconfigured
from throttle.meter import Meter
from throttle.meter.cells import DATABASES
from throttle.meter.rows import LANES, RING, TURN
from throttle.model import Amount, Reading

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)
"""Python 3.12 warns of what a prefork pool does; a meter has to bear it."""


@pytest.fixture
def meter() -> Meter:
    """Give a meter of this test's own."""
    return Meter()


class Totals:
    """Adds up what a meter reads."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.databases: dict[str, Amount] = {}
        self.ended: dict[int, dict[str, Amount]] = {}
        self.running: dict[int, Amount] = {}
        self.dropped = 0

    def read(self) -> Reading:
        """All that is new is in the sums."""
        reading = self.meter.read()
        for name, amount in reading.databases.items():
            old = self.databases.get(name, Amount())
            self.databases[name] = old.plus(amount)
        self.running = {}
        for run in reading.runs:
            if run.ended:
                self.ended.setdefault(run.run, {})[run.database] = run.amount
            else:
                self.running[run.run] = run.amount
        self.dropped += reading.dropped
        return reading

    def operations(self, database: str) -> float:
        """Return how many there were in all."""
        self.read()
        return self.databases.get(database, Amount()).operations


def forked(work: Callable[[], object]) -> Callable[[], int]:
    """Run it in a child; return what waits for its end and says its exit code."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def in_thread(work: Callable[[], object]) -> None:
    """Do it in a thread of its own, which has ended then."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_what_was_counted_is_told_once(meter: Meter) -> None:
    """A reading says what came since the last one."""
    tally = meter.tally("main")
    tally.add(seconds=0.5, rows=3)
    tally.add(2)
    assert meter.read().databases == {"main": Amount(3, 0.5, 3)}
    assert meter.read() == Reading({}, (), 0)
    assert meter.tally("main") is tally


@pytest.mark.parametrize(
    "name", ["", "  ", "a" * 61, "a:b", "a{b", "a}b", "\0", None, 3]
)
def test_a_name_that_can_be_no_key_is_refused(meter: Meter, name: Any) -> None:
    """The error says what is allowed."""
    with pytest.raises(Misconfigured, match="1 to 60 bytes"):
        meter.tally(name)


@pytest.mark.parametrize("shared", [False, True])
def test_nonsense_that_is_counted_by_hand_harms_nothing(
    meter: Meter, shared: bool
) -> None:
    """What is no amount is nothing, and there is a most of what is one."""
    if shared:
        meter.share(1)
        meter.enter(0)
    tally = meter.tally("main")
    for number in (float("nan"), float("-inf"), -1.0):
        tally.add(-1, seconds=number, rows=-1)
    tally.add(0, seconds=float("inf"))
    tally.add(0, seconds=1e300)
    for _ in range(3):
        tally.add(10**400, rows=10**400)
    if shared:
        meter._children = [meter._shared.row(0)]  # type: ignore[union-attr]
    assert meter.read().databases == {"main": Amount(3e9, 2e6, 3e9)}


def test_many_threads_lose_no_count(meter: Meter) -> None:
    """Each writes to its own cells, while another one reads."""
    tally, totals = meter.tally("main"), Totals(meter)
    stop = threading.Event()
    before = sys.getswitchinterval()

    def work() -> None:
        for _ in range(20_000):
            tally.add(rows=1)

    def read() -> None:
        while not stop.is_set():
            totals.read()

    sys.setswitchinterval(1e-6)
    try:
        reader = threading.Thread(target=read)
        writers = [threading.Thread(target=work) for _ in range(8)]
        for one in (reader, *writers):
            one.start()
        for one in writers:
            one.join()
        stop.set()
        reader.join()
    finally:
        sys.setswitchinterval(before)
    assert totals.operations("main") == 160_000
    assert totals.databases["main"].rows == 160_000


def test_cells_of_threads_that_ended_are_given_back(meter: Meter) -> None:
    """And what they counted is told."""
    tally, totals = meter.tally("main"), Totals(meter)
    for _ in range(100):
        in_thread(tally.add)
        totals.read()
    assert totals.operations("main") == 100
    counts: Any = meter._counts
    assert len(counts._by_thread) == 1  # this thread's


def test_a_running_statement_tells_its_seconds_as_they_pass(meter: Meter) -> None:
    """And in all no more than it took."""
    tally = meter.tally("main")
    cells, at = meter.local.cells, tally.at
    cells[at] += 1
    cells[at + 3] = 1
    first = meter.read().databases["main"]
    assert first.operations == 1
    assert first.seconds > 0
    second = meter.read().databases["main"]
    assert second.operations == 0
    assert second.seconds > 0
    told = first.seconds + second.seconds
    cells[at + 3] = 0
    assert meter.read().databases == {}  # its end is not written yet
    cells[at + 1] += int((told + 1) * 1e9)
    assert meter.read().databases["main"].seconds == pytest.approx(1, abs=1e-6)


# Runs


def test_a_run_costs_what_its_thread_does_meanwhile(meter: Meter) -> None:
    """Before and after is not its cost, nor what another thread does."""
    main, other, totals = meter.tally("main"), meter.tally("other"), Totals(meter)
    main.add(5)
    meter.begin(1)
    main.add(2, rows=4)
    in_thread(lambda: main.add(100))
    totals.read()
    assert totals.running == {1: Amount(2, 0, 4)}
    other.add()
    meter.end()
    main.add(7)
    totals.read()
    assert totals.ended == {1: {"main": Amount(2, 0, 4), "other": Amount(1)}}
    assert totals.running == {}
    assert totals.databases["main"].operations == 114


def test_a_run_within_a_run_is_part_of_the_outer_one(meter: Meter) -> None:
    """A task that applies another task is not ended by that."""
    tally, totals = meter.tally("main"), Totals(meter)
    meter.begin(1)
    tally.add()
    meter.begin(2)
    tally.add()
    meter.end()
    tally.add()
    meter.end()
    meter.end()  # one too many does no harm
    totals.read()
    assert totals.ended == {1: {"main": Amount(3)}}


def test_a_database_first_seen_within_a_run_counts(meter: Meter) -> None:
    """Its cells come after those that were noted when the run began."""
    totals = Totals(meter)
    meter.begin(1)
    meter.tally("new").add(3, seconds=0.25)
    totals.read()
    assert totals.running == {1: Amount(3, 0.25)}
    meter.end()
    totals.read()
    assert totals.ended == {1: {"new": Amount(3, 0.25)}}


# What finds no place


def test_a_database_too_many_is_dropped_and_counted(meter: Meter) -> None:
    """The others count as before."""
    totals = Totals(meter)
    for number in range(DATABASES + 2):
        meter.tally(f"db{number}").add(2)
    totals.read()
    assert len(totals.databases) == DATABASES
    assert totals.dropped == 4


def test_a_thread_too_many_is_dropped_and_counted(
    meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its statements run, and are in no sum."""
    counts: Any = meter._counts
    monkeypatch.setattr(counts, "_threads", 1)
    tally, totals = meter.tally("main"), Totals(meter)

    def work() -> None:
        meter.begin(1)
        tally.add(3)
        meter.end()

    in_thread(work)
    tally.add()
    totals.read()
    assert totals.databases == {"main": Amount(1)}
    assert totals.ended == {}
    assert totals.dropped == 3


def test_ended_runs_beyond_the_buffer_are_dropped_and_counted(
    meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the reader."""
    counts: Any = meter._counts
    monkeypatch.setattr(counts, "_most_ended", 2)
    tally, totals = meter.tally("main"), Totals(meter)
    for run in range(1, 6):
        meter.begin(run)
        tally.add()
        meter.end()
    totals.read()
    assert set(totals.ended) == {1, 2}
    assert totals.dropped == 3
    assert totals.databases == {"main": Amount(5)}


# Children


def test_a_child_writes_and_its_parent_reads(meter: Meter) -> None:
    """Databases, runs, threads of the child, and what it did before it entered."""
    tally, totals = meter.tally("main"), Totals(meter)
    tally.add(1000)
    meter.share(2)
    totals.read()

    def work() -> None:
        meter.tally("early").add(4)
        meter.enter(1)
        meter.begin(7)
        tally.add(2, seconds=1.5, rows=6)
        in_thread(lambda: meter.tally("late").add(3))
        meter.end()
        assert meter.read() == Reading({}, (), 0)  # it is its parent's

    assert forked(work)() == 0
    totals.read()
    assert totals.ended == {7: {"main": Amount(2, 1.5, 6), "late": Amount(3)}}
    assert totals.databases == {
        "main": Amount(1002, 1.5, 6),
        "early": Amount(4),
        "late": Amount(3),
    }


def test_a_child_that_takes_over_a_row_goes_on_counting(meter: Meter) -> None:
    """Also with the databases in another order, and after one that was killed."""
    totals = Totals(meter)
    entered, done = Event(), Event()
    meter.share(1)

    def first() -> None:
        meter.enter(0)
        meter.tally("a").add(1)
        meter.tally("b").add(10)
        meter.begin(5)
        meter.tally("b").add(100)
        meter.local.cells[meter.tally("b").at + 3] = 1  # in the midst of a statement

    def second() -> None:
        meter.tally("c")
        meter.tally("b")
        meter.enter(0)
        meter.tally("c").add(2)
        meter.tally("b").add(20)
        meter.tally("a").add(200)
        entered.set()
        done.wait()

    assert forked(first)() == 0
    totals.read()
    wait = forked(second)
    assert entered.wait(30)
    totals.read()
    done.set()
    assert wait() == 0
    assert totals.databases["b"].seconds == 0  # it began long ago, and has not ended
    assert totals.running == {}
    assert totals.ended == {}
    assert {name: one.operations for name, one in totals.databases.items()} == {
        "a": 201,
        "b": 130,
        "c": 2,
    }


def test_children_at_work_lose_no_count(meter: Meter) -> None:
    """Their parent reads while they write."""
    tally, totals = meter.tally("main"), Totals(meter)
    children, each = 3, 30_000
    meter.share(children)
    ready = Barrier(children)

    def work(index: int) -> None:
        meter.enter(index)
        ready.wait()
        for number in range(each):
            if number % 100 == 0:
                meter.begin(index * each + number + 1)
            tally.add(seconds=1e-6, rows=2)
            if number % 100 == 99:
                meter.end()

    waits = [forked(partial(work, index)) for index in range(children)]
    eventually(lambda: totals.operations("main") == children * each, timeout=60)
    assert [wait() for wait in waits] == [0] * children
    totals.read()
    assert totals.databases["main"].rows == children * each * 2
    assert totals.databases["main"].seconds == pytest.approx(children * each * 1e-6)
    runs = children * each // 100
    assert len(totals.ended) + totals.dropped == runs
    assert all(one["main"].operations == 100 for one in totals.ended.values())


def test_a_child_beyond_the_rows_is_dropped_and_counted(meter: Meter) -> None:
    """It works as if nothing were."""
    totals = Totals(meter)
    meter.share(1)

    def work() -> None:
        meter.enter(1)
        meter.begin(1)
        meter.tally("main").add(3)
        meter.end()

    assert forked(work)() == 0
    totals.read()
    assert totals.databases == {}
    assert totals.dropped == 3


def test_threads_beyond_the_lanes_are_dropped_and_counted(meter: Meter) -> None:
    """Lanes of threads that ended are used again."""
    totals = Totals(meter)
    meter.share(1)

    def work() -> None:
        meter.enter(0)
        tally = meter.tally("main")
        meter.begin(1)
        for _ in range(LANES * 3):
            in_thread(tally.add)
        here = threading.Barrier(LANES + 1)

        def together() -> None:
            tally.add()
            here.wait()

        threads = [threading.Thread(target=together) for _ in range(LANES + 1)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        meter.end()

    assert forked(work)() == 0
    totals.read()
    # one lane is the main thread's
    assert totals.ended[1]["main"].operations == LANES * 3 + LANES - 1
    assert totals.dropped == 2


def test_ended_runs_that_nobody_reads_are_overwritten_and_counted(meter: Meter) -> None:
    """The last ones are told."""
    totals = Totals(meter)
    meter.share(1)

    def work() -> None:
        meter.enter(0)
        tally = meter.tally("main")
        for run in range(1, RING + 11):
            meter.begin(run)
            tally.add()
            meter.end()

    assert forked(work)() == 0
    totals.read()
    assert set(totals.ended) == set(range(11, RING + 11))
    assert totals.dropped == 10
    assert totals.databases["main"].operations == RING + 10


def test_a_statement_and_a_run_of_a_dead_child_do_not_go_on(meter: Meter) -> None:
    """Its process is asked for when something lasts longer than a second."""
    totals = Totals(meter)
    meter.share(1)

    def work() -> None:
        meter.enter(0)
        tally = meter.tally("main")
        meter.begin(1)
        tally.add()
        # as if begun long ago, and killed
        meter.local.cells[tally.at + 3] = 1
        meter._counts._row._cells[5] = 1  # type: ignore[attr-defined]

    assert forked(work)() == 0
    reading = totals.read()
    assert reading.databases == {"main": Amount(1)}
    assert reading.runs == ()


def test_a_child_killed_while_a_run_began_leaves_a_row_that_tells_runs(
    meter: Meter,
) -> None:
    """What it wrote half is not taken for half written by all that follow."""
    meter.share(1)

    def killed() -> None:
        meter.enter(0)
        # in the middle of writing, and killed
        meter._counts._row._cells[TURN] += 1  # type: ignore[attr-defined]

    forked(killed)()
    ready, over = Event(), Event()

    def work() -> None:
        meter.enter(0)
        meter.begin(7)
        meter.tally("main").add(5)
        ready.set()
        over.wait(30)

    wait = forked(work)
    assert ready.wait(30)
    [run] = meter.read().runs
    over.set()
    wait()
    assert (run.run, run.amount.operations) == (7, 5)


def test_a_forked_process_begins_with_nothing(meter: Meter) -> None:
    """What its parent counted is the parent's; a child of a child writes to no row."""
    tally, totals = meter.tally("main"), Totals(meter)
    tally.add(5)
    meter.begin(1)
    meter.share(1)

    def grandchild() -> None:
        tally.add(3)
        assert meter.read().databases == {"main": Amount(3)}

    def child() -> None:
        assert meter.read() == Reading({}, (), 0)
        meter.enter(0)
        tally.add(7)
        cells = meter.local.cells
        cells[tally.at + 3] = 5  # in the midst of a statement
        assert forked(grandchild)() == 0
        assert cells[tally.at + 3] == 5
        cells[tally.at + 3] = 0

    assert forked(child)() == 0
    assert totals.operations("main") == 12


def test_enter_without_shared_memory_changes_nothing(meter: Meter) -> None:
    """A pool without processes may call it too."""
    meter.enter(0)
    meter.tally("main").add()
    assert meter.read().databases == {"main": Amount(1)}


# Greenlets


def test_greenlets_have_runs_of_their_own() -> None:
    """Under gevent's patches, as in `celery worker -P gevent`."""
    code = """
from gevent import monkey; monkey.patch_all()
import gevent
from throttle.meter import meter
tally = meter.tally("main")
def work(run):
    meter.begin(run)
    for _ in range(run):
        tally.add()
        gevent.sleep(0)
    meter.end()
gevent.joinall([gevent.spawn(work, run) for run in range(1, 201)])
reading = meter.read()
assert reading.databases["main"].operations == 20100
assert {r.run: int(r.amount.operations) for r in reading.runs} == {
    r: r for r in range(1, 201)}, reading.runs
meter.read()
gevent.sleep(0)
meter.read()
assert len(meter._counts._by_thread) <= 2, len(meter._counts._by_thread)
"""
    run_python(code)


def run_python(code: str) -> None:
    """Fail with what it printed if the program fails."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
