"""What a job was given as its items: layers, Sources, or what is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from celery_sharding.errors import Misconfigured
from celery_sharding.layers import MARK, Layers
from celery_sharding.sources import Source, from_json, to_json

Layer = list[Any] | Iterator[Any] | Source
"""Its items, or an iterator over them that is read once, or where they are."""

ALLOWED = (
    "allowed are a list of items, a list of lists (layers), layers.toposort(…),"
    " layers.flat(…), an iterator, a Source or a list of Sources (layers)"
)


def layers_of(given: object) -> Iterator[Layer]:
    """Give the layers of what a job was given, in order.

    A list that is not empty, and has nothing but lists and Sources in it, is one of
    layers. Anything else that can be iterated is one layer. Raise Misconfigured for
    what is not meant to be: None, a text, a mapping, a number, a set.

    Only an object is a Source, never JSON: that may be anybody's data.
    """
    if isinstance(given, Source):
        yield given
    elif isinstance(given, Layers):
        yield from map(list, given)
    elif isinstance(given, Mapping) and given.keys() == {MARK}:
        yield from _lists(given[MARK])
    elif isinstance(given, list):
        if given and all(isinstance(one, (list, Source)) for one in given):
            yield from given
        else:
            yield given
    else:
        yield _iterated(given)


def has_sources(given: object) -> bool:
    """Whether it is a Source, or layers with a Source among them."""
    if not isinstance(given, list):
        return isinstance(given, Source)
    return all(isinstance(one, (list, Source)) for one in given) and any(
        isinstance(one, Source) for one in given
    )


def stored(given: object) -> Any:
    """Return JSON from which `from_stored` makes what means the same to `layers_of`.

    JSON makes lists of tuples: a list of rows that are tuples would come back as
    layers of cells. An iterator is read. A Source that is all there is stands alone.
    """
    if isinstance(given, Source):
        return to_json(given)
    told: list[Any] = [
        to_json(one) if isinstance(one, Source) else [*one] for one in layers_of(given)
    ]
    return {MARK: told}


def from_stored(told: Mapping[str, Any]) -> Any:
    """Return a Source, or the layers as a list: what `stored` was written from.

    Only for what the code of this package has written. Mappings in the place of a
    layer are Sources here; inside of a layer there are items, whatever they hold.
    """
    if told.keys() != {MARK}:
        return from_json(told)
    return [from_json(one) if isinstance(one, Mapping) else one for one in told[MARK]]


def _lists(layers: Any) -> Iterator[list[Any]]:
    """Give layers that came as JSON; raise Misconfigured where one is no list."""
    if not isinstance(layers, list) or not all(isinstance(one, list) for one in layers):
        message = (
            f"layers that come as JSON must be lists of items; {ALLOWED}. A Source is"
            " given in the call, or made by PreProcess: it is never read from data"
        )
        raise Misconfigured(message)
    yield from layers


def _iterated(given: object) -> Layer:
    if given is None:
        message = (
            "a job needs items, and None was given or returned by its PreProcess (an"
            f" empty list means that there are none); {ALLOWED}"
        )
        raise Misconfigured(message)
    if isinstance(given, AbstractSet):
        message = f"a set has no order that lasts: sort it; {ALLOWED}"
        raise Misconfigured(message)
    if isinstance(given, (str, bytes, bytearray, Mapping)) or not isinstance(
        given, Iterable
    ):
        message = f"{type(given).__name__} is not what a job has items in; {ALLOWED}"
        raise Misconfigured(message)
    return [*given] if isinstance(given, tuple) else iter(given)
