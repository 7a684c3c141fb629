"""Items that a call brought: stored, and named in their place."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kombu.utils.json import dumps

from celery_pecker.kernel.clock import new_tag
from celery_sharding.codec import DEFLATED, PLAIN, REFUSALS, WORTH, encode_items
from celery_sharding.errors import InlineLimitExceeded, ItemNotSerializable
from celery_sharding.layers import MARK, Layers
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.submissions import ITEMS, names_items
from celery_sharding.plan import layers_of
from celery_sharding.sources import Source, to_json

PART = 1_000
"""Items that are encoded at once: what is endless is refused after so many more."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Items as they are stored: what `plan.stored` returns, encoded."""

    body: bytes
    items: int


class Replay:
    """An iterator's items, as often as they are asked for: it is read once.

    A signature and its copies may be called several times. What is read is kept: it is
    no more than sharding_inline_bytes lets pass.
    """

    def __init__(self, items: Iterator[Any]) -> None:
        self._rest = items
        self._read: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        """Yield what was read before, then the rest."""
        at = 0
        while True:
            while at < len(self._read):
                yield self._read[at]
                at += 1
            part = [*islice(self._rest, PART)]
            if not part:
                return
            self._read += part


def holds(data: object) -> bool:
    """Return whether it brings its items along, rather than name their place."""
    if isinstance(data, list):
        return not data or not all(isinstance(one, Source) for one in data)
    return isinstance(data, (tuple, range, Layers, Iterator, Replay)) or (
        isinstance(data, dict) and data.keys() == {MARK}
    )


def check(data: object) -> None:
    """Refuse what can be no items, in the caller, with the reason."""
    if not names_items(data) and not holds(data):
        next(layers_of(data), None)


def encode(data: object, *, limit: float) -> Encoded:
    """Return items as they are stored; an iterator is read.

    Raises:
        InlineLimitExceeded: They are more than `limit` bytes of JSON.
        ItemNotSerializable: One is no JSON; it is named.
    """
    texts: list[str] = []
    size = count = 0
    for layer in layers_of(data):
        if isinstance(layer, Source):
            texts.append(dumps(to_json(layer)))
            continue
        parts: list[str] = []
        rest = iter(layer)
        while part := [*islice(rest, PART)]:
            text = _text(part, first=count)
            count += len(part)
            size += len(text)
            if size <= limit:
                parts.append(text[1:-1])
            elif not isinstance(layer, list):
                raise InlineLimitExceeded(_too_large(size, limit, "at least "))
        texts.append(f"[{','.join(parts)}]")
    if size > limit:
        raise InlineLimitExceeded(_too_large(size, limit))
    whole = f'{{"{MARK}":[{",".join(texts)}]}}'.encode()
    if len(whole) < WORTH:
        return Encoded(PLAIN + whole, count)
    return Encoded(DEFLATED + zlib.compress(whole, 1), count)


def put(ledger: Ledger, data: object, *, limit: float) -> Any:
    """Return what stands in a message for the data; items are stored."""
    if not holds(data):
        return data
    encoded = encode(data, limit=limit)
    ref = new_tag()
    ledger.submissions.store(ref, encoded.body, encoded.items)
    return {ITEMS: ref}


def _text(part: list[Any], *, first: int) -> str:
    try:
        return str(dumps(part))
    except REFUSALS as error:
        encode_items(
            part, range(first, first + len(part))
        )  # raises, and names the item
        message = f"items from {first} on cannot be written as JSON: {error}"
        raise ItemNotSerializable(message) from error


def _too_large(size: int, limit: float, least: str = "") -> str:
    return (
        f"the items of this call are {least}{size:,} bytes of JSON, more than"
        f" sharding_inline_bytes ({limit:,.0f}): give a Source that says where they are"
        " (KeyRange, File, Query), or make them in pre_process"
    )
