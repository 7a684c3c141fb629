"""A job's data: layers, Sources, or what is refused."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from celery_sharding.errors import Misconfigured
from celery_sharding.layers import MARK, Layers
from celery_sharding.sources import Source, from_json, to_json

logger = logging.getLogger(__name__)

Layer = list[Any] | Iterator[Any] | Source
"""Its items, or an iterator over them that is read once, or where they are."""

ALLOWED = (
    "allowed are a list of items, a list of lists (layers), layers.toposort(…),"
    " layers.flat(…), an iterator, a Source or a list of Sources (layers)"
)


def layers_of(data: object) -> Iterator[Layer]:
    """Yield the layers of a job's data, in order.

    A list that is not empty, and has nothing but lists and Sources in it, is one of
    layers. Anything else that can be iterated is one layer. Raise Misconfigured for
    what is not meant to be: None, a text, a mapping, a number, a set; and for lists
    that look like rows of a table, not like layers.

    Only an object is a Source, never JSON: that may be data of any origin.
    """
    if isinstance(data, Source):
        yield data
    elif isinstance(data, Layers):
        yield from map(list, data)
    elif isinstance(data, Mapping) and data.keys() == {MARK}:
        yield from _lists(data[MARK])
    elif isinstance(data, list):
        if data and all(isinstance(one, (list, Source)) for one in data):
            _check_rows(data)
            yield from data
        else:
            yield data
    else:
        yield _iterated(data)


def has_sources(data: object) -> bool:
    """Return whether it is a Source, or layers with a Source among them."""
    if not isinstance(data, list):
        return isinstance(data, Source)
    return all(isinstance(one, (list, Source)) for one in data) and any(
        isinstance(one, Source) for one in data
    )


def stored(data: object) -> Any:
    """Return JSON from which `from_stored` makes what means the same to `layers_of`.

    JSON makes lists of tuples: a list of rows that are tuples would come back as
    layers of cells. An iterator is read. A Source that is all there is stands alone.
    """
    if isinstance(data, Source):
        return to_json(data)
    layers: list[Any] = [
        to_json(one) if isinstance(one, Source) else [*one] for one in layers_of(data)
    ]
    return {MARK: layers}


def from_stored(document: Mapping[str, Any]) -> Any:
    """Return a Source, or the layers as a list: what `stored` was written from.

    Only for what the code of this package has written. Mappings in the place of a
    layer are Sources here; inside of a layer there are items, whatever they hold.
    """
    if document.keys() != {MARK}:
        return from_json(document)
    layers: list[Any] = [
        from_json(one) if isinstance(one, Mapping) else one for one in document[MARK]
    ]
    # What was written from Layers looks like a table now and then, and is none.
    return Layers(layers) if _width(layers) else layers


def _check_rows(lists: list[Any]) -> None:
    """Refuse lists that are rows of a table, and log what may be one.

    Each row would become a layer, its cells items: one after the other, and wrong.
    """
    width = _width(lists)
    if not width:
        return
    what = f"{len(lists)} lists of {width} cells each"
    if any(len({_kind(cell) for cell in row}) > 1 for row in lists):
        raise Misconfigured(
            f"{what} look like rows of a table, such as {lists[0]!r:.80}: use"
            f" layers.flat(rows) if each is an item, or layers.Layers(lists) if each is"
            f" a layer of items"
        )
    if len(lists) > width:
        logger.warning(
            "sharding: %s were taken for layers; layers.flat(rows) makes them items",
            what,
        )


def _width(lists: list[Any]) -> int:
    """Return how many cells each list has, if they may be rows of a table; else 0."""
    if len(lists) < 2 or not isinstance(lists[0], list):  # noqa: PLR2004  # one is none
        return 0
    width = len(lists[0])
    alike = width > 1 and all(
        isinstance(row, list) and len(row) == width and all(map(_is_cell, row))
        for row in lists
    )
    return width if alike else 0


def _is_cell(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _kind(cell: object) -> str:
    """Return whether a cell is a text, a truth value, nothing, or a number."""
    if isinstance(cell, bool) or cell is None:
        return type(cell).__name__
    return "text" if isinstance(cell, str) else "number"


def _lists(layers: Any) -> Iterator[list[Any]]:
    """Yield layers that came as JSON; raise Misconfigured where one is no list."""
    if not isinstance(layers, list) or not all(isinstance(one, list) for one in layers):
        raise Misconfigured(
            f"layers that come as JSON must be lists of items; {ALLOWED}. A Source is"
            " given in the call, or made by PreProcess: it is never read from data"
        )
    yield from layers


def _iterated(data: object) -> Layer:
    if data is None:
        raise Misconfigured(
            "a job needs items, and None was passed or returned by its PreProcess (an"
            f" empty list means that there are none); {ALLOWED}"
        )
    if isinstance(data, AbstractSet):
        raise Misconfigured(f"a set has no order that lasts: sort it; {ALLOWED}")
    if isinstance(data, (str, bytes, bytearray, Mapping)) or not isinstance(
        data, Iterable
    ):
        raise Misconfigured(
            f"{type(data).__name__} is not what a job has items in; {ALLOWED}"
        )
    return [*data] if isinstance(data, tuple) else iter(data)
