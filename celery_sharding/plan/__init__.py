"""Data becomes layers, layers become shards, shards are dealt to workers: pure.

``data``        what a job was given, as layers; what is refused, and why
``arguments``   Sources in a call, kept apart from the data in its arguments
`cut`           a layer's items as shards
`assign`        the same number of them for each worker
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeVar

from celery_sharding.codec import encode, encode_items
from celery_sharding.errors import Misconfigured, NoExecutor
from celery_sharding.model import Cut, Options, Placement, Planned
from celery_sharding.plan.data import Layer, from_stored, layers_of, stored
from celery_sharding.sources import KEYS, Sizes, Source, refer
from celery_sharding.spool import ItemFile, Spool

__all__ = ["from_stored", "layers_of", "stored"]

Executor = TypeVar("Executor")


def assign(
    shards: int | Sequence[int], executors: Sequence[Executor]
) -> dict[Executor, list[int]]:
    """Return the shards of each executor: runs of neighbours, balanced within one.

    What is left over goes to the first executors where the number of shards is odd, and
    to the last ones where it is even: over many jobs the first are not always those
    with more. Raise NoExecutor if there are shards and no worker for them.
    """
    numbers = range(shards) if isinstance(shards, int) else shards
    if not executors:
        if numbers:
            raise NoExecutor(
                f"{len(numbers)} shards are to be dealt, and no worker is alive"
            )
        return {}
    each, over = divmod(len(numbers), len(executors))
    upward = len(numbers) % 2 == 1
    dealt: dict[Executor, list[int]] = {}
    start = 0
    for place, executor in enumerate(executors):
        further = place < over if upward else place >= len(executors) - over
        end = start + each + further
        dealt[executor] = [*numbers[start:end]]
        start = end
    return dealt


NOTHING: Mapping[str, Any] = MappingProxyType({})


def cut(
    items: object,
    options: Options,
    executors: int,
    *,
    conf: Mapping[str, Any] = NOTHING,
    owners: Sequence[str] = (),
    limit: int = sys.maxsize,
) -> Iterator[Planned]:
    """Yield the shards of a job's items, layer by layer.

    An iterator is read as shards are asked for: no more of it is held than what may
    run at once. With ``cut="hash"`` or ``placement="even"`` it is read to its end
    before its first shard. Layers without items are left out, and the others numbered
    from 0.

    Args:
        items: see `layers_of`.
        options: size, cut, placement and concurrency count.
        executors: shards that live workers run at once; 0 is as good as 1.
        conf: the app's configuration, for sources.
        owners: live workers by name; with ``placement="even"`` shards are dealt to
            them, those of each layer anew.
        limit: bytes, encoded, that what is read to its end may have.

    Raises:
        Misconfigured: these are no items, or cannot be cut so.
        PlanLimitExceeded: what is read to its end is more than ``limit``.
        ItemNotSerializable: an item is no JSON; the error names its layer and place.
    """
    least, most = options.size
    wanted = max(min(executors, options.concurrency), 1)
    if options.placement is Placement.EVEN and owners:
        # The same number for each, wherever there are items enough.
        wanted += -wanted % len(owners)
    measure = Sizes(least=least, most=most, wanted=wanted)
    layer = 0
    for data in layers_of(items):
        shards = _cut(data, layer, options, measure, conf, limit)
        if options.placement is Placement.EVEN and owners:
            shards = _dealt(shards, owners, limit)
        before = layer
        for shard in shards:
            yield shard
            layer = before + 1


def _cut(
    data: Layer,
    layer: int,
    options: Options,
    measure: Sizes,
    conf: Mapping[str, Any],
    limit: int,
) -> Iterator[Planned]:
    hashed = options.cut is Cut.HASH
    if isinstance(data, Source):
        if hashed:
            raise Misconfigured(
                f"cut='hash' needs the items themselves: {data!r} is cut where it is,"
                f" into neighbours; use cut='contiguous'"
            )
        for part, count in data.parts(measure, conf):
            if count != 0:
                some = measure.most if count is None else count
                body = encode(part[KEYS]) if KEYS in part else None
                reference = refer(data, part)
                yield Planned(layer=layer, count=some, body=body, reference=reference)
        return
    if isinstance(data, list):
        yield from _of_list(data, range(len(data)), layer, measure, hashed=hashed)
    elif hashed:
        yield from _of_file(data, layer, measure, limit)
    else:
        yield from _of_stream(data, layer, measure)


def _of_list(
    items: list[Any], places: range, layer: int, measure: Sizes, *, hashed: bool
) -> Iterator[Planned]:
    """Yield a list's shards; places are those of its items in their layer."""
    counts = measure.of(len(items))
    start = 0
    for number, count in enumerate(counts):
        own = (
            slice(number, None, len(counts)) if hashed else slice(start, start + count)
        )
        start += count
        body = encode_items(items[own], places[own], f" of layer {layer}")
        yield Planned(layer=layer, count=count, body=body)


def _of_stream(data: Iterator[Any], layer: int, measure: Sizes) -> Iterator[Planned]:
    """Yield full shards while there is more than may run at once; the rest evenly.

    How many there are is not known before the end. Two full shards are held back at
    least, so that the last ones are not left with less than others.
    """
    ahead = max(measure.wanted, 2) * measure.most
    held: list[Any] = []
    at = 0
    for chunk in iter(lambda: [*islice(data, measure.most)], []):
        held += chunk
        while len(held) >= ahead + measure.most:
            full = held[: measure.most]
            places = range(at, at + measure.most)
            body = encode_items(full, places, f" of layer {layer}")
            yield Planned(layer=layer, count=measure.most, body=body)
            del held[: measure.most]
            at += measure.most
    places = range(at, at + len(held))
    yield from _of_list(held, places, layer, measure, hashed=False)


def _of_file(
    data: Iterator[Any], layer: int, measure: Sizes, limit: int
) -> Iterator[Planned]:
    """Yield shards of each so many-th item; how many shards only the end of it says."""
    with ItemFile(limit) as items:
        items.take(data, layer)
        counts = measure.of(len(items))
        for number, count in enumerate(counts):
            own = range(number, len(items), len(counts))
            yield Planned(layer=layer, count=count, body=encode(items.read(own)))


def _dealt(
    shards: Iterator[Planned], owners: Sequence[str], limit: int
) -> Iterator[Planned]:
    """Yield shards with their owners; whose is which their number says, at the end."""
    with Spool(limit) as spool:
        spool.take(shards)
        owned = assign(spool.shards, owners)
        for shard, owner in zip(
            spool,
            (owner for owner, numbers in owned.items() for _ in numbers),
            strict=True,
        ):
            yield replace(shard, owner=owner)
