"""What has come of a shard's items and is not yet written."""

import traceback
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from celery_sharding.codec import encode, storable
from celery_sharding.errors import ItemNotSerializable
from celery_sharding.model import Code, Failure, Shard, Step
from celery_sharding.sources import Unreadable

WHOLE = -1
"""The place of a failure that is the shard's, not an item's."""
MESSAGE, TRACE = 4_000, 16_000
"""Characters that are kept; of a traceback the last ones, which name the place."""
OUR_FRAMES = "celery_sharding/runner/"


def describe(error: BaseException | str) -> tuple[str, str, str | None]:
    """Return the type, the message and the traceback of an error, all of them short.

    A text is an error that was not raised.
    """
    if isinstance(error, str):
        return "Failed", storable(error)[:MESSAGE], None
    # Frames of this package do not explain why an item failed.
    trace = error.__traceback__
    while trace is not None and OUR_FRAMES in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    text = None
    if trace is not None:
        lines = traceback.format_exception(type(error), error, trace)
        text = storable("".join(lines))[-TRACE:]
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in {"builtins", "__main__"}:
        name = f"{kind.__module__}.{name}"
    return name, storable(_text_of(error))[:MESSAGE], text


def of_item(
    record: Shard,
    index: int,
    item: Any,
    error: BaseException | str,
    code: Code = Code.FAILED,
) -> Failure:
    """Return the failure of a shard's own item of that index."""
    kind, shown = None, item
    if isinstance(item, Unreadable):
        kind, shown = "Unreadable", item.text
    place, body = record.place(index), _encoded(shown)
    return _failure(record, place, error, code, kind=kind, item=body)


def of_shard(
    record: Shard, error: BaseException | str, code: Code = Code.FAILED
) -> Failure:
    """Return the failure of a shard as a whole."""
    return _failure(record, WHOLE, error, code)


def _failure(
    record: Shard,
    place: int,
    error: BaseException | str,
    code: Code,
    *,
    kind: str | None = None,
    item: bytes | None = None,
) -> Failure:
    """Return a failure at that place; `kind` in place of the error's own."""
    type_, message, trace = describe(error)
    return Failure(
        origin=record.origin,
        place=place,
        shard=record.shard,
        layer=record.layer,
        code=code,
        attempt=record.attempt + 1,
        type=kind or type_,
        message=message,
        traceback=trace,
        item=item,
    )


def _text_of(error: BaseException) -> str:
    """Return what an error says; some cannot even do that."""
    try:
        return str(error)
    except (TypeError, ValueError, AttributeError, LookupError):
        return "(it cannot be shown as text)"


def _encoded(item: Any) -> bytes | None:
    """Return an item as it is stored; one of a source may be no JSON."""
    try:
        return encode(item)
    except ItemNotSerializable:
        return None


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger knows of a claimed shard beside its record."""

    retry: Sequence[int] = ()
    """Places that an earlier holder was to retry in the end."""
    failed: AbstractSet[int] = frozenset()
    """Places that failed under an earlier holder, those included."""
    counted: bool = True
    """Whether it is known how many items there are."""


@dataclass(eq=False, repr=False)
class ResultBuffer:
    """Collects results and failures, and makes steps of them."""

    record: Shard
    items: Sequence[Any]
    known: Known
    retried: bool = False
    """Whether what fails is retried."""

    def __post_init__(self) -> None:
        self._counted = self.known.counted
        self._repeats = self.record.origin != self.record.shard
        self._cursor = min(self.record.cursor, len(self.items))
        self._done, self._failed = self.record.done, self.record.failed
        self._returned = self.record.returned
        self._bad = {*self.known.failed}
        """Places of items that did not end well, in this process or an earlier one."""
        self._forget = False
        self._ends = self._cursor
        self._failures: list[Failure] = []
        self._amiss: set[int] = set()
        """Items since the last step that did not end well."""
        self._retries = [*self.known.retry]
        """Places that are to be retried once the shard has ended."""
        self.results: list[tuple[int, Any]] = []
        """(index of the item that was in hand, value)."""

    @property
    def keep(self) -> Callable[[tuple[int, Any]], None]:
        """What keeps one more result: of each item, so it costs no call of ours."""
        return self.results.append

    def torn(self, cursor: int) -> bool:
        """Return whether items before that one ended in calls that did not return.

        Their value, where the processor returns one, went with the call.
        """
        return self._well(cursor) > self._returned

    def call_returned(self, cursor: int, *, whole: bool) -> None:
        """Note that a call has returned, the items before it being whole or torn."""
        if whole:
            self._returned = self._well(cursor)

    def _well(self, cursor: int) -> int:
        """Return how many items before that one have ended well."""
        return self._done + cursor - self._cursor - len(self._amiss)

    def retry_all(self, cursor: int) -> bool:
        """Retry all that ended well; delete results that it left.

        False: it is not known which those are.
        """
        places = [self.record.place(index) for index in range(cursor)]
        well = [place for place in places if place not in self._bad]
        if len(well) != self._well(cursor):
            return False
        self.results.clear()
        self._retries += well
        self._forget = True
        return True

    def drop_results(self, index: int) -> None:
        """Drop results of items from that one on: their call failed."""
        results = self.results
        while results and results[-1][0] >= index:
            results.pop()

    def drop_beyond(self, count: int) -> None:
        """Drop results but for so many."""
        del self.results[count:]

    def rewind(self, cursor: int) -> None:
        """Count items from that one on as not ended, even if they were written so.

        None of them has failed or has a result.
        """
        if cursor < self._cursor:
            self._done -= self._cursor - cursor
            self._cursor = cursor

    def fail(self, index: int, failure: Failure, *, retry: bool) -> None:
        """End an item as failed, or (``retry``) as one to be retried."""
        self._failures.append(failure)
        self._amiss.add(index)
        self._bad.add(failure.place)
        if retry:
            self._retries.append(failure.place)
        else:
            self._failed += 1

    def put_off(self, index: int) -> None:
        """Put off an item that was not begun; it will be retried."""
        self._amiss.add(index)
        self._retries.append(self.record.place(index))

    def fail_whole(self, failure: Failure) -> None:
        """Fail the shard as a whole."""
        self._failures.append(failure)

    def step(
        self,
        cursor: int,
        ahead: int,
        status: Code = Code.RUNNING,
        *,
        value: Any = None,
        delay: float = 0.0,
    ) -> Step:
        """Return what has come since the last step, and forget it.

        ``value``: what the processor returned at the end. ``delay``: seconds until
        items that failed are retried.
        """
        ended = status.ended
        kept = self.results
        end = len(kept)
        while end and not ended and kept[end - 1][0] >= cursor:
            end -= 1
        taken = kept[:end]
        del kept[:end]
        self._ends = cursor
        body = self._encoded(taken)
        result = None
        if ended and value is not None:
            result = self._result(value)
            status = Code.FAILED if result is None else status
        since = range(self._cursor, cursor)
        self._done += len(since) - len(self._amiss)
        if self._forget:
            self._done = self._returned = 0
        mended: tuple[tuple[int, int], ...] = ()
        if self._repeats:
            mended = tuple(
                (self.record.origin, self.record.place(index))
                for index in since
                if index not in self._amiss
            )
        if ended:
            # what it never reached failed with it
            self._failed += len(self.items) - cursor
        step = Step(
            shard=self.record.shard,
            cursor=cursor,
            ahead=ahead,
            done=self._done,
            failed=self._failed,
            returned=self._returned,
            status=status,
            results=body,
            result=result,
            failures=tuple(self._failures),
            mended=mended,
            retry=(tuple(self._retries), delay) if ended and self._retries else None,
            forget=self._forget,
            count=None if self._counted else len(self.items),
        )
        self._cursor = cursor
        self._failures = []
        self._amiss = set()
        return step

    def _encoded(self, taken: list[tuple[int, Any]]) -> bytes | None:
        """Return results as they are stored; one that is no JSON fails its item."""
        if not taken:
            return None
        try:
            return encode([value for _, value in taken])
        except ItemNotSerializable:
            values = [value for index, value in taken if self._kept(index, value)]
            return encode(values) if values else None

    def _kept(self, index: int, value: Any) -> bool:
        try:
            encode(value, what="a result")
        except ItemNotSerializable as error:
            self._unfit(index, error)
            return False
        return True

    def _unfit(self, index: int, error: ItemNotSerializable) -> None:
        """Fail the item whose result it was, or the shard where that has ended."""
        if not self._cursor <= index < self._ends or index in self._amiss:
            self._failures.append(of_shard(self.record, error))
            return
        item = self.items[index]
        failure = of_item(self.record, index, item, error)
        self.fail(index, failure, retry=self.retried)

    def _result(self, value: Any) -> bytes | None:
        try:
            return encode(value, what="what the processor returned")
        except ItemNotSerializable as error:
            self._failures.append(of_shard(self.record, error))
            return None
