"""Items whose number is not known before the last one, encoded, in a temporary file."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Any, Self

from celery_sharding.codec import decode, encode
from celery_sharding.errors import PlanLimitExceeded

HELD = 8_000_000
"""Bytes that are kept in memory; more lies in a file."""


class ItemFile:
    """Items that can be read again, any of them, in any order."""

    def __init__(self, limit: int) -> None:
        """Take ``limit``, the bytes that fit; more is refused."""
        self._limit = limit
        self._file = SpooledTemporaryFile(max_size=HELD)  # noqa: SIM115  # see __exit__
        self._ends = array("Q", [0])

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._ends) - 1

    def take(self, items: Iterable[Any], layer: int) -> None:
        """Take all of them; raise PlanLimitExceeded or ItemNotSerializable."""
        for place, item in enumerate(items):
            what = f"item {place} of layer {layer} ({type(item).__name__})"
            self._file.write(encode(item, what=what))
            self._ends.append(self._file.tell())
            if self._ends[-1] > self._limit:
                message = (
                    f"the first {len(self)} items of layer {layer} take more than"
                    f" sharding_plan_limit = {self._limit} bytes; raise it"
                )
                raise PlanLimitExceeded(message)

    def read(self, places: Iterable[int]) -> list[Any]:
        """Return the items at these places, in their order."""
        return [self._one(place) for place in places]

    def _one(self, place: int) -> Any:
        start, end = self._ends[place], self._ends[place + 1]
        self._file.seek(start)
        return decode(self._file.read(end - start))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
