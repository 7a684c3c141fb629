"""One shard over lists: which items end how, and what is written of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from celery_sharding import codec
from celery_sharding.model import Code, Job, Options, Step
from celery_sharding.model import Shard as Record
from celery_sharding.policies import FailFast, Retry
from celery_sharding.processor import Processor
from celery_sharding.runner import Known, Lists, Shard, Stop, Work, run_shard
from celery_sharding.sources import Unreadable


class Told(Lists):
    """A book that is due at each item, and says stop from a given cursor on."""

    def __init__(self, at: int | None = None, stop: Stop = Stop.PAUSED) -> None:
        super().__init__([])
        self._at, self._stop = at, stop

    @property
    def due(self) -> float:
        """Always."""
        return 0.0

    def write(self, step: Step) -> Stop | None:
        """Keep the step; say stop."""
        super().write(step)
        told = self._at is not None and step.cursor >= self._at
        return self._stop if told and not step.status.ended else None


def record(count: int, **given: Any) -> Record:
    """Return a shard that was just claimed."""
    plain = {"cursor": 0, "ahead": 0, "done": 0, "failed": 0, "deaths": 0, "attempt": 0}
    return Record(
        **{"shard": 7, "layer": 0, "origin": 7, "lo": 0, "hi": count, **plain, **given}
    )


def run(
    process: Callable[[Shard], Any],
    count: int = 10,
    *,
    book: Lists | None = None,
    given: Record | None = None,
    again: Sequence[int] = (),
    items: Sequence[Any] | None = None,
    **options: Any,
) -> tuple[Stop, Lists]:
    """Run a shard of the items 0, 10, 20 and so on."""
    told = Options(**options)
    book = book or Lists()
    processor = Processor(name="t", process=process, options=told)
    work = Work(job=Job(id="j", task="t"), options=told)
    stop = run_shard(
        processor,
        given or record(count),
        items or [10 * index for index in range(count)],
        work=work,
        book=book,
        known=Known(again=again),
    )
    return stop, book


def results(book: Lists) -> list[Any]:
    """Return all results in the order in which they are stored: by cursor."""
    rows = [codec.decode(one.results) for one in book.steps if one.results]
    return [value for body in rows for value in body]


def places(book: Lists) -> list[int]:
    """Return where what failed lies."""
    return [one.place for step in book.steps for one in step.failures]


def double(shard: Shard) -> None:
    """Give each item twice as large."""
    for item in shard:
        shard.ok(2 * item)


def test_a_shard_ends_well_in_one_step() -> None:
    """No write lies between its items."""
    stop, book = run(double)
    assert stop is Stop.END
    (step,) = book.steps
    assert (step.status, step.cursor, step.done, step.failed) == (
        Code.SUCCEEDED,
        10,
        10,
        0,
    )
    assert results(book) == [20 * index for index in range(10)]


def test_a_shard_goes_on_from_its_cursor() -> None:
    """Items that had ended are not given again, and still count."""
    _, book = run(double, given=record(10, cursor=6, done=5, failed=1))
    assert results(book) == [120, 140, 160, 180]
    assert (book.steps[-1].done, book.steps[-1].failed) == (9, 1)


def test_what_is_raised_is_the_failure_of_the_item_in_hand() -> None:
    """The shard goes on after it, and its values do not count."""

    def process(shard: Shard) -> None:
        for item in shard:
            shard.ok(item)
            if item in {30, 90}:
                message = f"no {item}"
                raise ValueError(message)

    _, book = run(process)
    (step,) = book.steps
    assert (step.status, step.done, step.failed) == (Code.SUCCEEDED, 8, 2)
    assert results(book) == [0, 10, 20, 40, 50, 60, 70, 80]
    told = step.failures[0]
    assert (told.place, told.type, told.message) == (3, "ValueError", "no 30")
    assert told.item is not None
    assert codec.decode(told.item) == 30
    assert told.traceback is not None
    assert "celery_sharding/runner" not in told.traceback


def test_fail_goes_on_in_the_same_call() -> None:
    """And raising in the same item says why instead."""
    calls = []

    def process(shard: Shard) -> None:
        calls.append(shard.cursor)
        for item in shard:
            if item == 20:
                shard.fail("bad")
            if item == 50:
                shard.fail("first")
                message = "then"
                raise KeyError(message)

    _, book = run(process)
    assert calls == [0, 6]
    told = [one.message for one in book.steps[0].failures]
    assert told == ["bad", "'then'"]
    assert (book.steps[0].done, book.steps[0].failed) == (8, 2)


def test_each_calls_a_function_with_each_item() -> None:
    """Its failures do not end the call."""
    calls = []

    def process(shard: Shard) -> None:
        calls.append(1)
        shard.each(lambda item: 100 // (item - 40))

    _, book = run(process)
    assert (places(book), len(calls)) == ([4], 1)
    assert len(results(book)) == 9


@pytest.mark.parametrize("stop", [Stop.PAUSED, Stop.SHUTDOWN, Stop.OVER, Stop.CROWDED])
def test_a_shard_that_is_told_to_stop_is_given_back(stop: Stop) -> None:
    """No item is begun after it was told; what it returned so far counts."""

    def process(shard: Shard) -> int:
        return sum(1 for _ in shard)

    said, book = run(process, book=Told(4, stop))
    assert said is stop
    assert book.steps[-1].status is Code.WAITING
    assert book.steps[-1].cursor == 4
    assert results(book) == [4]


def test_what_stops_right_after_a_write_still_gives_what_it_returned() -> None:
    """In the step that gives it back."""

    def process(shard: Shard) -> str:
        double(shard)
        return "part"

    _, book = run(process, book=Told(2))
    assert results(book) == [0, 20, "part"]


def test_a_lost_ticket_writes_nothing_more() -> None:
    """Not even that it is lost."""
    said, book = run(double, book=Told(4, Stop.LOST))
    assert said is Stop.LOST
    assert [one.status for one in book.steps] == [Code.RUNNING] * 4 + [Code.RUNNING]
    assert book.steps[-1].cursor == 4


def test_the_first_failure_ends_the_shard_under_fail_fast() -> None:
    """The rest is not begun."""

    def process(shard: Shard) -> None:
        for item in shard:
            if item >= 30:
                shard.fail("no")

    stop, book = run(process, on_error=FailFast())
    assert stop is Stop.FAILED
    assert (book.steps[-1].status, book.steps[-1].cursor) == (Code.FAILED, 4)
    assert places(book) == [3]


def test_what_is_tried_again_counts_neither_as_done_nor_as_failed() -> None:
    """Until its last attempt."""

    def process(shard: Shard) -> None:
        shard.each(lambda item: 1 // (item % 40))

    _, book = run(process, on_error=Retry(1, backoff=3.0))
    step = book.steps[-1]
    assert step.again == ((0, 4, 8), 3.0)
    assert (step.done, step.failed, places(book)) == (7, 0, [0, 4, 8])
    half = record(10, cursor=5, done=3, ahead=10)
    _, book = run(process, on_error=Retry(1), given=half, again=[0, 4])
    step = book.steps[-1]
    assert (step.again, step.done) == (((0, 4, 8), 1.0), 7)
    picks = record(10, origin=2, attempt=1, picks=[5 * n for n in range(10)])
    _, book = run(process, on_error=Retry(1), given=picks)
    step = book.steps[-1]
    assert (step.again, step.done, step.failed) == (None, 7, 3)
    assert places(book) == [0, 20, 40]
    assert step.mended == tuple((2, 5 * n) for n in range(10) if n % 4)


def test_what_is_raised_outside_of_items_fails_the_shard_as_a_whole() -> None:
    """Before the first item, or after the last."""

    def before(shard: Shard) -> None:
        raise OSError

    def after(shard: Shard) -> None:
        double(shard)
        raise OSError

    _, book = run(before)
    assert (book.steps[-1].status, places(book)) == (Code.FAILED, [-1])
    assert book.steps[-1].cursor == 0
    _, book = run(after)
    assert (book.steps[-1].status, places(book)) == (Code.FAILED, [-1])
    assert (book.steps[-1].done, len(results(book))) == (10, 10)


def test_a_processor_that_asks_for_no_item_fails_the_shard() -> None:
    """It would be called without end."""
    _, book = run(lambda _: None)
    assert book.steps[-1].status is Code.FAILED
    assert "10 are left" in book.steps[-1].failures[0].message


def test_a_processor_that_returns_early_is_called_for_the_rest() -> None:
    """What it returns each time counts."""

    def process(shard: Shard) -> list[int]:
        taken = []
        for item in shard:
            taken.append(item)
            if len(taken) == 4:
                break
        return taken

    _, book = run(process)
    assert results(book) == [[0, 10, 20, 30], [40, 50, 60, 70]]
    assert book.steps[-1].result is not None
    assert codec.decode(book.steps[-1].result) == [80, 90]


def test_an_empty_shard_ends_without_a_call() -> None:
    """There is nothing to give."""
    stop, book = run(lambda _: 1 / 0, 0)
    assert (stop, book.steps[-1].status) == (Stop.END, Code.SUCCEEDED)


@pytest.mark.parametrize("bad", [{0}, {9}, {3, 4}, {5}, set(range(10)), set()])
def test_a_batch_is_halved_until_what_fails_is_alone(bad: set[int]) -> None:
    """All else ends well, and once."""
    stored: list[int] = []

    def process(shard: Shard) -> None:
        rows = [item // 10 for item in shard]
        assert 0 < len(rows) <= 4
        if bad & {*rows}:
            raise ValueError(rows)
        stored.extend(rows)
        shard.ok(len(rows))

    _, book = run(process, batch=4)
    assert sorted(stored) == sorted({*range(10)} - bad)
    assert sorted(places(book)) == sorted(bad)
    assert sum(results(book)) == 10 - len(bad)
    assert (book.steps[-1].done, book.steps[-1].failed) == (10 - len(bad), len(bad))


def test_a_result_that_is_no_json_fails_its_item() -> None:
    """And no other."""

    def process(shard: Shard) -> None:
        for item in shard:
            shard.ok(object() if item == 50 else item)

    _, book = run(process)
    step = book.steps[-1]
    assert (places(book), step.done, step.failed) == ([5], 9, 1)
    assert len(results(book)) == 9


@pytest.mark.parametrize("batch", [None, 4])
def test_a_suspect_is_written_down_before_it_is_begun(batch: int | None) -> None:
    """A processor that dies leaves `ahead` behind it."""
    begun: list[int] = []
    book = Lists()

    def process(shard: Shard) -> None:
        for item in shard:
            assert book.steps[-1].ahead > item // 10
            begun.append(item)

    run(process, book=book, given=record(10, deaths=1), batch=batch)
    assert len(begun) == 10


def test_who_is_guilty_of_deaths_is_recorded_and_not_run() -> None:
    """An item; or the shard as a whole, where it dies before it begins one."""
    seen: list[int] = []
    process = seen.append
    poison = record(10, cursor=4, done=4, deaths=3, ahead=5)
    _, book = run(lambda shard: [*map(process, shard)] and None, given=poison)
    assert seen == [50, 60, 70, 80, 90]
    step = book.steps[-1]
    assert (step.status, step.done, step.failed) == (Code.SUCCEEDED, 9, 1)
    told = [one for step in book.steps for one in step.failures]
    assert [(one.code, one.place) for one in told] == [(Code.DIED, 4)]
    _, book = run(lambda _: 1 / 0, given=record(10, deaths=4, ahead=0))
    (step,) = book.steps
    assert (step.status, step.failed) == (Code.DIED, 10)
    assert [(one.code, one.place) for one in step.failures] == [(Code.DIED, -1)]


@pytest.mark.parametrize("batch", [None, 3, 1])
def test_what_a_source_could_not_read_fails_without_a_call(batch: int | None) -> None:
    """Wherever in the shard it lies."""
    broken = Unreadable("x", "it is no JSON")
    items = [broken, 1, 2, broken, broken, 5, broken]

    def process(shard: Shard) -> None:
        for item in shard:
            shard.ok(item)

    _, book = run(process, 7, items=items, batch=batch)
    assert (results(book), places(book)) == ([1, 2, 5], [0, 3, 4, 6])
    told = next(one for step in book.steps for one in step.failures)
    assert (told.type, told.message) == ("Unreadable", "it is no JSON")
    assert (book.steps[-1].done, book.steps[-1].failed) == (3, 4)
