"""Items and shards of a user's code that are read to their end, in bounded files."""

from array import array
from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile
from typing import Any, Self

from kombu.utils.json import dumps, loads

from celery_sharding.codec import decode, encode
from celery_sharding.errors import PlanLimitExceeded
from celery_sharding.model import Planned

PLAN_BYTES = 1_000_000_000
"""Bytes that items of PreProcess may have, encoded: they lie in a temporary file until
they are written (those of `cut="hash"` before they are cut, too), and an endless
generator is not to fill the disk."""
HELD = 8_000_000
"""Bytes that are kept in memory; more lies in a file until it is written."""


class _LimitedFile:
    """A temporary file that takes so many bytes and no more."""

    def __init__(self, limit: int) -> None:
        """Take ``limit``, the bytes that fit; more is refused."""
        self.limit = limit
        self._file = SpooledTemporaryFile(max_size=HELD)  # noqa: SIM115  # see __exit__

    def _check(self, taken: str, advice: str = "give a Source") -> None:
        """Raise PlanLimitExceeded if what was written is more."""
        if self._file.tell() > self.limit:
            raise PlanLimitExceeded(
                f"the first {taken} take more than the {self.limit} bytes that a plan"
                f" may have; {advice}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class ItemFile(_LimitedFile):
    """Items that can be read again, any of them, in any order."""

    def __init__(self, limit: int) -> None:
        """Take ``limit``, the bytes that fit; more is refused."""
        super().__init__(limit)
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
            self._check(f"{len(self)} items of layer {layer}")

    def read(self, places: Iterable[int]) -> list[Any]:
        """Return the items at these places, in their order."""
        return [self._one(place) for place in places]

    def _one(self, place: int) -> Any:
        start, end = self._ends[place], self._ends[place + 1]
        self._file.seek(start)
        return decode(self._file.read(end - start))


class Spool(_LimitedFile):
    """Planned shards, read from whatever makes them, to be written without waiting.

    A source or a generator of the user may take minutes for its next item. A
    transaction that was open meanwhile would keep the purge and vacuum from their work
    and be undone by the server, so all is read before one begins. It can be iterated
    any number of times: a write that got no answer is tried once more.
    """

    shards = 0

    def take(self, shards: Iterable[Planned]) -> None:
        """Take all of them in their order; raise PlanLimitExceeded."""
        for one in shards:
            body = one.body
            size = None if body is None else len(body)
            head = [one.layer, one.count, one.reference, one.owner, size]
            self._file.write(dumps(head).encode() + b"\n")
            self._file.write(body or b"")
            self.shards += 1
            self._check(
                f"{self.shards} shards",
                "give a Source, of which no item is stored",
            )

    def __iter__(self) -> Iterator[Planned]:
        """Yield them, from the first on."""
        self._file.seek(0)
        for _ in range(self.shards):
            head: list[Any] = loads(self._file.readline().decode())
            layer, count, reference, owner, size = head
            body = None if size is None else self._file.read(size)
            yield Planned(
                layer=layer, count=count, body=body, reference=reference, owner=owner
            )
