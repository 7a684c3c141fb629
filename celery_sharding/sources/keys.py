"""Whole numbers, such as the keys of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from celery_sharding.errors import Misconfigured
from celery_sharding.sources.model import Source
from celery_sharding.sources.sizes import Sizes


class KeyRange(Source):
    """Every whole number from the first to the last, both included.

    Nobody asks whether they are keys of anything: the processor does.
    """

    kind: ClassVar[str] = "keys"

    def __init__(self, first: int, last: int) -> None:
        for name, value in (("first", first), ("last", last)):
            if isinstance(value, bool) or not isinstance(value, int):
                message = f"KeyRange: {name} must be a whole number, not {value!r}"
                raise Misconfigured(message)
        if last < first - 1:
            message = f"KeyRange: last ({last}) is before first ({first})"
            raise Misconfigured(message)
        self.first = first
        self.last = last

    def __len__(self) -> int:
        """Return how many there are."""
        return self.last - self.first + 1

    def __repr__(self) -> str:
        """Return how it was made."""
        return f"KeyRange({self.first}, {self.last})"

    def as_json(self) -> dict[str, Any]:
        """Return its first and its last."""
        return {"first": self.first, "last": self.last}

    def parts(
        self, sizes: Sizes, conf: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], int | None]]:
        """Yield ranges of it."""
        del conf
        first = self.first
        for count in sizes.of(self.last - self.first + 1):
            yield {"first": first, "count": count}, count
            first += count

    def read(self, part: Mapping[str, Any], conf: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the numbers of a part."""
        del conf
        return iter(range(part["first"], part["first"] + part["count"]))
