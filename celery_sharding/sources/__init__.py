"""Items by reference: what a job works on, and messages never carry.

Source       what all of them can do: be cut into parts, and read a part
KeyRange     whole numbers from the first to the last
File         lines, JSON lines or CSV records of a file that each worker can read
Query        rows of a PostgreSQL query, page by page by their key
Sizes        how many items a part may have, and how many parts there should be
register     makes a source of your own known, in each process that meets it
read         the items of a part, from its reference
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

from celery_sharding.errors import Misconfigured
from celery_sharding.sources.file import File
from celery_sharding.sources.model import KEYS, MARK, Sizes, Source, Unreadable
from celery_sharding.sources.query import Query

__all__ = ["KEYS", "MARK", "File", "Query", "Sizes", "Source", "Unreadable"]


@dataclass(eq=False, repr=False)
class KeyRange(Source):
    """Every whole number from the first to the last, both included.

    It is not checked whether they are keys of anything: the processor does.
    """

    kind: ClassVar[str] = "keys"

    first: int
    last: int

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int):
                raise Misconfigured(
                    f"KeyRange: {name} must be a whole number, not {value!r}"
                )
        if self.last < self.first - 1:
            raise Misconfigured(
                f"KeyRange: last ({self.last}) is before first ({self.first})"
            )

    def __len__(self) -> int:
        """Return how many there are."""
        return self.last - self.first + 1

    def __repr__(self) -> str:
        """Return how it was made."""
        return f"KeyRange({self.first}, {self.last})"

    def as_json(self) -> dict[str, Any]:
        """Return its first and its last."""
        return asdict(self)

    def parts(
        self, sizes: Sizes, conf: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], int | None]]:
        """Yield ranges of it."""
        first = self.first
        for count in sizes.of(self.last - self.first + 1):
            yield {"first": first, "count": count}, count
            first += count

    def read(self, part: Mapping[str, Any], conf: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the numbers of a part."""
        return iter(range(part["first"], part["first"] + part["count"]))


Kind = TypeVar("Kind", bound=type[Source])

LISTED = "listed"
"""Of a reference: the keys of its part are stored with the items of shards."""
_KINDS: dict[str, type[Source]] = {one.kind: one for one in (KeyRange, File, Query)}


def register(kind: Kind) -> Kind:
    """Return the class, known by its kind from now on; raise where that is taken."""
    name = getattr(kind, "kind", None)
    if not isinstance(name, str) or not name:
        raise Misconfigured(f"{kind.__qualname__}.kind must be a name, not {name!r}")
    known = _KINDS.setdefault(name, kind)
    # A module that is loaded anew brings the same class again.
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise Misconfigured(
            f"sources of kind {name!r} are {known.__qualname__} already"
        )
    _KINDS[name] = kind
    return kind


def to_json(source: Source) -> dict[str, Any]:
    """Return the JSON from which `from_json` makes the source.

    Not `__json__`, which Celery would call: a source never gets into JSON by itself,
    among items or as the value of a task, where it would look like data.
    """
    return {MARK: source.kind, **source.as_json()}


def from_json(document: Mapping[str, Any]) -> Source:
    """Return the source that `to_json` wrote.

    Only for JSON that this package has written beside data, never for data: its author
    decides which file or database a worker reads.
    """
    arguments = dict(document)
    name = arguments.pop(MARK, None)
    kind = _KINDS.get(name)
    if kind is None:
        known = ", ".join(sorted(_KINDS))
        raise Misconfigured(
            f"this process knows no source of kind {name!r}, only {known}; import the"
            f" module that registers it"
        )
    return kind.from_json(arguments)


def refer(source: Source, part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reference of a part, as JSON: what `read` needs, but for its keys."""
    own = {name: value for name, value in part.items() if name != KEYS}
    reference = {"source": to_json(source), "part": own}
    return {**reference, LISTED: True} if KEYS in part else reference


def is_listed(reference: Mapping[str, Any]) -> bool:
    """Return whether the part has keys, which are stored with the items of shards."""
    return LISTED in reference


def items_of(
    reference: Mapping[str, Any] | None, conf: Mapping[str, Any], stored: Any
) -> Sequence[Any]:
    """Return a shard's items: what is stored, or of its reference the keys for it."""
    return stored if reference is None else [*read(reference, conf, stored)]


def read(
    reference: Mapping[str, Any], conf: Mapping[str, Any], keys: Any = None
) -> Iterator[Any]:
    """Yield the items of the part, from its reference and the app's configuration.

    ``keys``: of the part; None: it has none.
    """
    part = reference["part"]
    if keys is not None:
        part = {**part, KEYS: keys}
    return from_json(reference["source"]).read(part, conf)
