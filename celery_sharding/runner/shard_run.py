"""The run of one shard in one process: which item is next, what has come of it.

Between two items nothing is written or read: one read of a clock, a few
assignments. Every so often (`StepWriter.due`) what has come of the items since is
written, and the answer says whether to go on.

    0 … cursor … at … limit … count
        ended    given  may be given

Without a batch an item has ended when the next is asked for. With one, items have
ended when the processor returned from a call for all of them.

``list(shard)`` asks for all items before it works on any: they end together, too.

An item is confirmed by `ok` while it is in hand, or by the return of the call that was
given it. Code that raises after it has asked for all items has confirmed none of them,
whatever the cursor says: `take_back`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from celery_pecker.kernel.clock import monotonic
from celery_sharding.errors import ShardingError
from celery_sharding.model import Code, Shard, Step
from celery_sharding.policies import Policy, policy_of
from celery_sharding.runner.limits import Limits
from celery_sharding.runner.result_buffer import (
    Known,
    ResultBuffer,
    of_item,
    of_shard,
)
from celery_sharding.runner.step_writer import StepWriter, Stop, Work
from celery_sharding.runner.window import Window
from celery_sharding.sources import Unreadable

MOST_ASKED = 1_000
"""How often an item is retried, at most, because its code asks for it."""


class Retries:
    """The decisions of one attempt: by its policy, or by what the code asks for."""

    def __init__(self, policy: Policy, attempt: int) -> None:
        self._policy = policy
        self._attempt = attempt
        self.allowed = attempt + 1 < policy.attempts()
        """Whether the policy has another attempt."""
        self._asked: dict[int, tuple[BaseException | str, float]] = {}
        """By which error code asks for another attempt at an item, and after how many
        seconds: a later error of the same item is another matter."""
        self._wait = 0.0

    def ask(self, index: int, error: BaseException | str, seconds: float) -> None:
        """Have an item retried after so many seconds, if it fails by that error."""
        if self._attempt < MOST_ASKED:
            self._asked[index] = error, seconds

    def decide(self, index: int, error: BaseException | str, code: Code) -> bool:
        """Return whether an item that has failed is retried."""
        by, seconds = self._asked.pop(index, (None, 0.0))
        asked = by is error
        self._wait = max(self._wait, seconds if asked else 0.0)
        return asked or (self.allowed and code is not Code.DIED)

    @property
    def delay(self) -> float:
        """Seconds until items that failed in this attempt are retried."""
        return max(self._policy.delay(self._attempt + 1), self._wait)


class Confirmed:
    """What is known of items beside the cursor, call by call."""

    def __init__(self, buffer: ResultBuffer, cursor: int) -> None:
        self._buffer = buffer
        self._began = cursor
        """The first item of the call in hand."""
        self._since = cursor
        """The first item after the last call that returned."""
        self._known: set[int] = set()
        """Items that failed here, or whose results were written."""
        self._whole_from: int | None = None
        """How many results there were when the call had been given its last item:
        those behind them belong to no item."""

    def begin_call(self, cursor: int, *, torn: bool) -> None:
        """Begin a call at that item; ``torn``: the one before did not return."""
        self._began = cursor
        if not torn:
            self._since = cursor
        self._whole_from = None

    def fail(self, index: int) -> None:
        """Note that an item has failed."""
        self._known.add(index)

    def keep_results(self) -> None:
        """Note the items of results that are about to be written."""
        self._known.update(index for index, _ in self._buffer.results)

    def exhaust(self) -> None:
        """Note that the call has no item in hand any more."""
        if self._whole_from is None:
            self._whole_from = len(self._buffer.results)

    @property
    def left(self) -> bool:
        """Whether `ok` was called after the last item: with a value of all of them."""
        start = self._whole_from
        return start is not None and len(self._buffer.results) > start

    def drop_left(self) -> None:
        """Forget results that belong to no item."""
        if self._whole_from is not None:
            self._buffer.drop_beyond(self._whole_from)

    def doubtful(self, *, further: bool) -> tuple[int, list[int]]:
        """Return the end of what is confirmed, and items before it that are not.

        Of the call in hand; ``further``: and of those before that did not return.
        """
        self.drop_left()
        self.keep_results()
        start = self._since if further else self._began
        known = {index for index in self._known if index >= start}
        end = max(known, default=start - 1) + 1
        return end, [index for index in range(start, end) if index not in known]


NOTHING = Known()
NO_ITEM = (
    "shard.fail(…) was called with no item in hand; raise an error, and the shard fails"
    " as a whole"
)
HANGS = "it took longer than it may, and could not be interrupted"


@dataclass(eq=False, repr=False)
class ShardRun:
    """Gives a shard's items, and keeps what comes of them until it is written."""

    record: Shard
    items: Sequence[Any]
    work: Work
    writer: StepWriter
    known: Known = NOTHING

    def __post_init__(self) -> None:
        self.count = len(self.items)
        self.cursor = self.at = min(self.record.cursor, self.count)
        """How many items have ended, and how many were given."""
        self.stop: Stop | None = None
        """Why no further item is given; None while there may be one."""
        self.limits = Limits(self.work, self.record)
        self.policy = policy_of(self.work.options)
        self._retries = Retries(self.policy, self.record.attempt)
        self.retried = self._retries.allowed
        self.buffer = ResultBuffer(
            self.record, self.items, self.known, retried=self.retried
        )
        self.window = Window(
            cursor=self.cursor,
            ahead=self.record.ahead,
            deaths=self.record.deaths,
            count=self.count,
        )
        self._pace = (monotonic(), self.cursor)
        self.batch = self.work.options.batch
        self._began, self._intact = self.cursor, True
        """Where the call in hand began, and whether those before it had returned."""
        self._end = self.count
        """Up to where the call in hand gives items: all, or its batch."""
        self._unreadable = [
            index
            for index in range(self.cursor, self.count)
            if isinstance(self.items[index], Unreadable)
        ]
        self._failing: dict[int, tuple[BaseException | str, Code]] = {}
        """Items that were given and have failed, and not yet ended."""
        self.confirmed = Confirmed(self.buffer, self.cursor)
        self._untouched = False
        """Whether the iterator that was made last has not been asked for an item."""
        self._collected = False
        """Whether the call in hand collects its items: they end when it returns."""

    def begin_call(self) -> None:
        """Begin a call of the processor: nothing that it is given is confirmed."""
        self.confirmed.begin_call(self.cursor, torn=self.is_torn())
        self._untouched = self._collected = False
        self._end = self.count

    def begin_next(self, room: int) -> bool:
        """Begin a call for items; return whether there may be one.

        ``room``: with a batch, how many items the call gets, at most.
        """
        if self.stop is not None:
            return False
        self.begin_call()
        if self.batch is not None and not self._open_batch(room):
            return False
        self._began, self._intact = self.cursor, not self.is_torn()
        return True

    def _open_batch(self, room: int) -> bool:
        self.look()
        if self.stop is None:
            self._end = self._batch_end(room)
        return self.stop is None

    def end_call(self) -> None:
        """End the items of a call that has returned."""
        self.settle()
        self.buffer.call_returned(self.cursor, whole=self._intact)
        self.finish()

    @property
    def remaining(self) -> int:
        """How many items have not been given."""
        return self.count - self.at

    @property
    def took_items(self) -> bool:
        """Whether the call in hand was given an item."""
        return self.at > self._began

    @property
    def between_items(self) -> bool:
        """Whether the call in hand was given items, and all of them have ended."""
        return self._began < self.at == self.cursor

    @property
    def in_call(self) -> int:
        """How many items end together with the call in hand, at most."""
        return self._end - self.cursor

    @property
    def place(self) -> int:
        """The place of the item that was given last, in the shard it came from."""
        return self.record.place(self.at - 1)

    def may_collect(self) -> int:
        """Return how many items are left, and collect them if `list` is what asks."""
        if self._untouched:
            self.collect()
        return self.remaining

    def collect(self) -> None:
        """Let the items of the call in hand end together, when it returns.

        Without this a process that is killed after ``list(shard)`` would leave a cursor
        behind items that no process worked on. There is no halving as with a batch:
        what the code did before it raised need not be undone.
        """
        if self.batch is None:
            self._untouched = False
            self.settle()
            self.look()
            self._end = (
                self.at if self.stop is not None else self._batch_end(self.count)
            )
            self._collected = True

    def each(self) -> Iterator[Any]:
        """Return an iterator that gives items until there is none, or it is to stop."""
        self._untouched = True
        return self._each()

    def _each(self) -> Iterator[Any]:
        self._untouched = False
        items, together = self.items, self.batch is not None or self._collected
        budget, hard = self.limits.budget, self.limits.hard
        timeout = self.limits.timeout
        while self._ready():
            edge = min(self.window.limit, self._end, *self._unreadable[:1])
            due = inf if together else self.writer.due
            now = monotonic()
            while True:
                until = now + timeout
                budget.at = until if until < hard else hard  # noqa: FURB136  # a call
                index = self.at
                self.at = index + 1
                yield items[index]
                if not together:
                    if self._failing or self.stop is not None:
                        self.limits.lift()
                        self.settle()
                        if self.stop is not None:
                            self.confirmed.exhaust()
                            return
                    self.cursor = self.at
                now = monotonic()
                if now >= due or self.at >= edge:
                    break
        self.confirmed.exhaust()

    def is_torn(self) -> bool:
        """Return whether items ended well in calls that did not return."""
        return self.buffer.torn(self.cursor)

    @property
    def inherited(self) -> bool:
        """Whether earlier processes left items of calls that did not return."""
        return self.record.done > self.record.returned

    def retry_all(self) -> bool:
        """Retry what ended well; return False if it is not known which items did."""
        return self.buffer.retry_all(self.cursor)

    def _ready(self) -> bool:
        """Write what is due; return whether another item may be begun."""
        self.limits.lift()
        try:
            return self._look_on()
        finally:
            self.limits.restart()

    def _look_on(self) -> bool:
        if self.stop is not None:
            return False
        if self.batch is not None or self._collected:
            return self.at < self._end
        self.settle()
        if self.stop is None:
            self.look()
        return self.stop is None

    def look(self) -> None:
        """Write what is due; `stop` says whether there is another item."""
        self._pass_unreadable()
        if self.stop is None:
            self.stop = Stop.END if self.at >= self.count else self.limits.over()
        now = monotonic()
        due = self.at >= self.window.limit or now >= self.writer.due
        if self.stop is None and due:
            self.stop = self.writer.write(self._step(now))

    def _step(self, now: float) -> Step:
        """Return what is to be written, with the items that may be begun after it."""
        since, before = self._pace
        flush = now - since
        rate = (self.cursor - before) / flush if flush > 0 else 0.0
        self._pace = (now, self.cursor)
        ahead = self.window.forward(self.cursor, rate=rate, flush=flush)
        self.confirmed.keep_results()
        return self.buffer.step(self.cursor, ahead)

    def last_step(self, status: Code, value: Any) -> Step:
        """Return what is to be written last: it ended, or is given back as it is."""
        ahead = self.cursor
        if not status.ended and self.window.isolating(self.cursor):
            ahead = max(self.record.ahead, self.window.limit)
        return self.buffer.step(
            self.cursor, ahead, status, value=value, delay=self._retries.delay
        )

    def abandon(self) -> list[Step]:
        """Begin and write nothing more here; return what another is to write.

        The call in hand does not come back: its item, or all of its batch, has failed;
        without one, or where the time of the shard is over, the shard as a whole, with
        the items that the call has not confirmed.
        """
        over = self.limits.over()
        if over is None and self.batch is None and self.in_hand is None:
            self.take_back(HANGS, Code.TIMED_OUT)
        self.stop = Stop.LOST
        status = Code.WAITING
        if over is None and self.at > self.cursor:
            first, end = self.cursor, self.at
            if self.batch is not None:
                end = self._end
            self._failing = dict.fromkeys(range(first, end), (HANGS, Code.TIMED_OUT))
            self.at = end
            self.settle()
        elif over is None and self.put_off():
            status = Code.SUCCEEDED
        elif self.cursor < self.count and over is not Stop.OVER:
            return [self.fail_whole(HANGS, Code.TIMED_OUT)]
        return [self.last_step(status, None)]

    def fail_whole(self, error: BaseException | str, code: Code) -> Step:
        """Fail what has not ended with the shard; return its last step."""
        self.buffer.fail_whole(of_shard(self.record, error, code))
        return self.last_step(code, None)

    def _batch_end(self, room: int) -> int:
        """Return where a batch of at most that many items ends, that begins now."""
        return min(
            self.cursor + room, self.window.limit, self.count, *self._unreadable[:1]
        )

    def put_off(self) -> bool:
        """Retry items that have not ended in a shard of their own.

        False: they were tried often enough.
        """
        if not self.retried or self.cursor >= self.count:
            return False
        for index in range(self.cursor, self.count):
            self.buffer.put_off(index)
        self.cursor = self.at = self.count
        return True

    def take_back(
        self,
        error: BaseException | str,
        code: Code,
        *,
        further: bool = False,
        rerun: bool = False,
    ) -> bool:
        """Undo what the current call has not confirmed: it raised outside of an item.

        Say whether there was anything.

        ``further``: and what the calls before it have not that raised at an item.
        ``rerun``: what fails so is retried, whatever the policy.

        The cursor goes back behind the last item that was confirmed or has failed.
        Items before that one which were not confirmed have failed with the error. None
        of this depends on what was written meanwhile.
        """
        end, doubtful = self.confirmed.doubtful(further=further)
        undone = bool(doubtful) or end < self.cursor
        for index in doubtful:
            if rerun:
                self._retries.ask(index, error, 0.0)
            self._failed(index, error, code)
        self.buffer.rewind(end)
        self.cursor = self.at = end
        return undone

    def undo_call(self) -> None:
        """Run the items of the call in hand anew."""
        self.buffer.drop_results(self.cursor)
        self._failing.clear()
        self.at = self.cursor

    def interrupt(self, over: Stop, error: BaseException) -> None:
        """Stop as the time of the shard, the job or the process is over."""
        if self.in_hand is None:
            self.take_back(error, Code.TIMED_OUT, rerun=over is Stop.KILLED)
        self.undo_call()
        self.stop = over

    def _pass_unreadable(self) -> None:
        """Record items that could not be read as failed, without the processor."""
        while self._unreadable and self._unreadable[0] == self.at:
            broken = self.items[self._unreadable.pop(0)]
            self.at += 1
            self.fail(broken.reason)
            self.settle()

    # What has come of items

    @property
    def in_hand(self) -> int | None:
        """The index of the item that was given last, if it has not ended."""
        return self.at - 1 if self.at > self.cursor and not self._collected else None

    def fail(self, error: BaseException | str, code: Code = Code.FAILED) -> None:
        """Let the current item have failed when it ends."""
        if self.in_hand is None:
            raise ShardingError(NO_ITEM)
        self._failing[self.at - 1] = (error, code)

    def retry(self, error: BaseException | str, seconds: float) -> None:
        """Fail the current item; retry it after that long, whatever the policy."""
        self.fail(error)
        self._retries.ask(self.at - 1, error, seconds)

    def raised_by_item(self, error: BaseException) -> None:
        """Fail the current item, unless the shard or the job is what has ended."""
        struck = self.limits.struck(error)
        if struck and self.limits.over() is not None:
            raise error
        self.buffer.drop_results(self.at - 1)
        self.fail(error, Code.TIMED_OUT if struck else Code.FAILED)

    def fail_item(self, index: int, error: str) -> None:
        """End an item, which is not run: processes before this one died over it."""
        self.at = index + 1
        self.fail(error, Code.DIED)
        self.settle()

    def end_failed(self, error: BaseException, code: Code) -> None:
        """End the current item as failed, without what it kept."""
        self.buffer.drop_results(self.at - 1)
        self.fail(error, code)
        self.settle()
        self.finish()

    def finish(self) -> None:
        """Stop if no item is left."""
        if self.stop is None and self.at >= self.count:
            self.stop = Stop.END

    def settle(self) -> None:
        """Count the current items as ended."""
        failing, self._failing = self._failing, {}
        for index, (error, code) in sorted(failing.items()):
            self._failed(index, error, code)
        self.cursor = self.at

    def _failed(self, index: int, error: BaseException | str, code: Code) -> None:
        failure = of_item(self.record, index, self.items[index], error, code)
        retry = self._retries.decide(index, error, code)
        self.confirmed.fail(index)
        self.buffer.fail(index, failure, retry=retry)
        if self.policy.ends_job and self.stop is None and not retry:
            self.stop = Stop.FAILED
