"""Data in layers: what may run at the same time, and what has to wait for it.

flat        a table of rows, or a list of items, as one layer
toposort    items that wait for one another: each a layer below what it waits for
Layers      what both return: a frozen list of lists

`toposort` is Kahn's algorithm over places in the list, a layer at a time: graphlib took
13 s for a million items that name three others each, which this does in half of it.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, overload

from celery_sharding.errors import CycleFound, DuplicateKey, Misconfigured

MARK = "celery_sharding.layers"
"""The one key of layers as JSON: a list of lists could also be rows of a table."""


class Layers(Sequence[Sequence[Any]]):
    """Layers of items: one runs after the other, its items at the same time.

    Whatever the items are: a list of lists given to a job counts as layers, and rows
    of a table that are lists would become layers of cells. `flat` says that they are
    rows.
    """

    __slots__ = ("_layers",)

    def __init__(self, layers: Iterable[Iterable[Any]]) -> None:
        self._layers = tuple([*layer] for layer in layers)

    @overload
    def __getitem__(self, index: int) -> Sequence[Any]: ...

    @overload
    def __getitem__(self, index: slice) -> "Layers": ...

    def __getitem__(self, index: int | slice) -> "Sequence[Any] | Layers":
        """Return the items of a layer, or some of the layers."""
        if isinstance(index, slice):
            return Layers(self._layers[index])
        return self._layers[index]

    def __len__(self) -> int:
        """Return how many layers there are."""
        return len(self._layers)

    def __iter__(self) -> Iterator[Sequence[Any]]:
        """Yield the items of each layer."""
        return iter(self._layers)

    def __eq__(self, other: object) -> bool:
        """Return whether they hold the same items in the same layers."""
        return isinstance(other, Layers) and self._layers == other._layers

    __hash__ = None  # type: ignore[assignment]  # their items may change

    def __repr__(self) -> str:
        """Return the number of items of each."""
        return f"Layers({', '.join(str(len(layer)) for layer in self._layers)} items)"

    def __json__(self) -> dict[str, list[list[Any]]]:
        """Return what kombu writes for them."""
        return {MARK: [*self._layers]}


def flat(rows: Iterable[Any]) -> Layers:
    """Return all of them as items of one layer, lists too."""
    return Layers([rows])


Field = str | int | Callable[[Any], Any]
"""The name of a field or attribute, the place in a sequence, or a function."""
SHOWN = 12
"""Keys of a circle that an error names."""


def toposort(
    items: Iterable[Any], *, key: Field, after: Field, strict: bool = False
) -> Layers:
    """Return the items in layers: each in the first one after all that it waits for.

    Args:
        items: in any order, which is kept within a layer.
        key: of an item: a field's name, or a function of the item.
        after: the keys that an item waits for: None, one key, or several in anything
            that gives them one by one, but a text or what the keys themselves are.
        strict: whether a key that no item has is an error. Otherwise it is of something
            that is there already, and nothing waits for it.

    Raises:
        DuplicateKey: two items have the same key.
        CycleFound: items wait for one another in a circle, which the message names.
        Misconfigured: an item has no such field, or its key is not hashable.
    """
    every = [*items]
    keys = [*_values(every, _reader(key), "key", key)]
    places = _places(keys)
    waiting, behind = _edges(every, keys, places, _reader(after), after, strict=strict)
    ready = [place for place, count in enumerate(waiting) if not count]
    layers = []
    left = len(every)
    while ready:
        layers.append([every[place] for place in ready])
        left -= len(ready)
        freed = []
        for place in ready:
            for follower in behind[place] or ():
                waiting[follower] = count = waiting[follower] - 1
                if not count:
                    freed.append(follower)
        freed.sort()
        ready = freed
    if left:
        raise CycleFound(_circle(keys, waiting, behind))
    return Layers(layers)


def _reader(named: Field) -> Callable[[Any], Any]:
    if callable(named):
        return named

    def read(item: Any) -> Any:
        # Most items are dicts, and asking an ABC takes longer than all else here.
        if isinstance(item, dict) or isinstance(named, int):
            return item[named]
        if isinstance(item, Mapping):
            return item[named]
        return getattr(item, named)

    return read


def _values(
    items: Sequence[Any], read: Callable[[Any], Any], what: str, named: Field
) -> Iterator[Any]:
    for place, item in enumerate(items):
        try:
            yield read(item)
        except (LookupError, AttributeError, TypeError) as error:
            if callable(named):
                raise
            raise Misconfigured(
                f"{what}={named!r}: item {place} ({type(item).__name__}) has no such"
                f" field"
            ) from error


def _places(keys: Sequence[Hashable]) -> dict[Hashable, int]:
    places: dict[Hashable, int] = {}
    for place, key in enumerate(keys):
        try:
            first = places.setdefault(key, place)
        except TypeError as error:
            raise Misconfigured(
                f"the key of item {place} cannot be one: {error}"
            ) from error
        if first != place:
            raise DuplicateKey(f"items {first} and {place} have the same key, {key!r}")
    return places


def _edges(
    items: Sequence[Any],
    keys: Sequence[Hashable],
    places: Mapping[Hashable, int],
    read: Callable[[Any], Any],
    named: Field,
    *,
    strict: bool,
) -> tuple[list[int], list[list[int] | None]]:
    """Return for each place how many it waits for, and the places that wait for it."""
    waiting = [0] * len(items)
    behind: list[list[int] | None] = [None] * len(items)
    single = _single(keys)
    place_of = places.get
    for place, keys_before in enumerate(_values(items, read, "after", named)):
        if keys_before is None:
            continue
        count = 0
        for wanted in _several(keys_before, single):
            try:
                before = place_of(wanted)
            except TypeError as error:
                raise Misconfigured(
                    f"item {place} waits for what cannot be a key: {error}"
                ) from error
            if before is None:
                if strict and wanted is not None:
                    raise Misconfigured(
                        f"item {place} ({keys[place]!r}) waits for {wanted!r}, which is"
                        f" the key of no item"
                    )
                continue
            followers = behind[before]
            if followers is None:
                behind[before] = [place]
            else:
                followers.append(place)
            count += 1
        waiting[place] = count
    return waiting, behind


def _single(keys: Sequence[Hashable]) -> tuple[type, ...]:
    """Return the types of what is one key, though it has items."""
    kinds = {type(key) for key in keys}
    own = {kind for kind in kinds if not issubclass(kind, AbstractSet)}
    tuples = (tuple,) if any(issubclass(kind, tuple) for kind in kinds) else ()
    return (str, bytes, *tuples, *own)


def _several(value: Any, single: tuple[type, ...]) -> Iterable[Any]:
    """Return the keys that `after` names, be it one or several."""
    if isinstance(value, single) or not isinstance(value, Iterable):
        return (value,)
    # Named twice, it is waited for twice, and freed twice: the sum is right.
    return value


def _circle(
    keys: Sequence[Hashable],
    waiting: Sequence[int],
    behind: Sequence[Sequence[int] | None],
) -> str:
    """Return the words for a circle among the items that still wait."""
    before: dict[int, int] = {}
    for place, followers in enumerate(behind):
        if waiting[place]:
            before.update(dict.fromkeys(followers or (), place))
    # Each item that waits, waits for one that does: going back, one is met again.
    place = next(place for place, count in enumerate(waiting) if count)
    seen: dict[int, int] = {}
    path: list[int] = []
    while place not in seen:
        seen[place] = len(path)
        path.append(place)
        place = before[place]
    circle = [keys[one] for one in path[seen[place] :]]
    shown = [repr(key) for key in circle[:SHOWN]]
    if len(circle) > SHOWN:
        shown.append(f"… ({len(circle) - SHOWN} more)")
    return f"items wait for one another: {' after '.join([*shown, shown[0]])}"
