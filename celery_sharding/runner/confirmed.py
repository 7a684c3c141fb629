"""Which items of a shard the calls of its processor have confirmed.

An item is confirmed by `ok` while it is in hand, by its failure, or by the return of
the call that was given it.
"""

from __future__ import annotations

from celery_sharding.runner.result_buffer import ResultBuffer


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
