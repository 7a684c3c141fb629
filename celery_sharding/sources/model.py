"""What a source is."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What parts may be like; `of` says how many items each has.

    `most` always holds. `least` holds unless all the items are fewer, or no number of
    parts would keep both (51 items by 50 to 50).
    """

    least: int
    most: int
    wanted: int
    """Parts that may run at once: executors, or the job's concurrency if it is less."""

    def of(self, items: int) -> list[int]:
        """Return the number of items of each part: all of them, balanced within one.

        As many parts as may run at once; of little data fewer, of much data the
        smallest multiple. No items: no parts.
        """
        if items <= 0:
            return []
        fewest = -(-items // self.most)
        rounds = -(-fewest // max(self.wanted, 1))
        parts = min(rounds * max(self.wanted, 1), items // self.least)
        parts = max(parts, fewest)
        each, over = divmod(items, parts)
        return [each + 1] * over + [each] * (parts - over)


MARK = "celery_sharding.source"
"""The key of a source's JSON that says its kind."""

KEYS = "keys"
"""Of a part: what is stored apart from it, because it may be long."""


class Source(ABC):
    """Items that are somewhere, and how to get at a part of them.

    A subclass sets `kind`, and is registered (`sources.register`) in each process that
    meets it. A part is whatever JSON the source can read it by; it is stored with the
    shard, so it should be short; but for its ``"keys"``, which are stored with the
    items of shards and are part of it when it is read. Reading it again must give the
    same items in the same order: a shard goes on in the middle of it after a death.
    """

    kind: ClassVar[str]
    """By which it is known in JSON."""

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """Return the arguments that make an equal one, as JSON."""

    @classmethod
    def from_json(cls, arguments: Mapping[str, Any]) -> Self:
        """Return the source that `as_json` wrote."""
        return cls(**arguments)

    @abstractmethod
    def parts(
        self, sizes: Sizes, conf: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], int | None]]:
        """Yield each part, in order, and how many items it has.

        Args:
            sizes: ``sizes.of(items)`` are the numbers of items to cut into. A source
                that cannot count gives parts of at most ``sizes.most``, and None.
            conf: the app's configuration.
        """

    @abstractmethod
    def read(self, part: Mapping[str, Any], conf: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the items of a part; `Unreadable` in place of one that is broken."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """In place of an item that a source could not read: it fails, and no other."""

    text: str
    reason: str

    def __json__(self) -> dict[str, str]:
        """Return what kombu writes for it."""
        return {"text": self.text, "reason": self.reason}
