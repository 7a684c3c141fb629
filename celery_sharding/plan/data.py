"""What a job was given as its items, told apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from celery_sharding.errors import Misconfigured
from celery_sharding.layers import MARK, Layers
from celery_sharding.sources import Source, from_json, is_source

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
    """
    if is_source(given):
        yield from_json(given)  # type: ignore[arg-type]  # as is_source says
    elif isinstance(given, Layers):
        yield from map(_layer, given)
    elif isinstance(given, Mapping) and given.keys() == {MARK}:
        yield from map(_layer, given[MARK])
    elif isinstance(given, list):
        if given and all(isinstance(one, list) or is_source(one) for one in given):
            yield from map(_layer, given)
        else:
            yield given
    else:
        yield _iterated(given)


def stored(given: object) -> Any:
    """Return what may be written as JSON and means the same to `layers_of`.

    JSON makes lists of tuples: a list of rows that are tuples would come back as
    layers of cells. An iterator is read.
    """
    told: list[Any] = [
        one.__json__() if isinstance(one, Source) else [*one]
        for one in layers_of(given)
    ]
    return {MARK: told}


def _layer(one: Any) -> Layer:
    if is_source(one):
        return from_json(one)
    return one if isinstance(one, list) else [*one]


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
