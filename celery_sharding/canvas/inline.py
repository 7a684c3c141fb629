"""What a call brought: items are stored, Sources are listed, before a message has them.

Items are named in their place. A message may be written by whatever reaches the broker,
and a Source says which file, or which query, a worker reads. So a Source in a message
is looked up in the ledger, where only code with rights to the tables has put it. A
KeyRange is read nowhere: it says no more than a list of numbers would.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any, Self

from celery import Celery
from kombu.utils.json import dumps

from celery_pecker.kernel.clock import new_tag
from celery_sharding.codec import REFUSALS, encode_items, packed
from celery_sharding.errors import (
    InlineLimitExceeded,
    ItemNotSerializable,
    Misconfigured,
)
from celery_sharding.layers import MARK as LAYERS
from celery_sharding.layers import Layers
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.submissions import ITEMS, names_items
from celery_sharding.plan import layers_of
from celery_sharding.plan.arguments import HEADER, join
from celery_sharding.sources import MARK as SOURCE
from celery_sharding.sources import KeyRange, Source, to_json

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
        isinstance(data, dict) and data.keys() == {LAYERS}
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
    return Encoded(packed(f'{{"{LAYERS}":[{",".join(texts)}]}}'.encode()), count)


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
        raise ItemNotSerializable(
            f"items from {first} on cannot be written as JSON: {error}"
        ) from error


def _too_large(size: int, limit: float, least: str = "") -> str:
    return (
        f"the items of this call are {least}{size:,} bytes of JSON, more than"
        f" sharding_inline_bytes ({limit:,.0f}): give a Source that says where they are"
        " (KeyRange, File, Query), or make them in pre_process"
    )


class ListedSources:
    """The Sources of a signature made by this process: listed as it becomes JSON.

    Celery copies signatures, and writes them into each other; kombu asks ``__json__``.
    """

    def __init__(self, app: Celery, task: str, apart: Sequence[Any]) -> None:
        self._app = app
        self._task = task
        self._apart = [*apart]

    def __iter__(self) -> Iterator[Any]:
        """Yield places and Sources as JSON, as `plan.arguments.split` gave them."""
        return iter(self._apart)

    def __deepcopy__(self, _: object) -> Self:
        """Return itself: it does not change."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process makes of it: JSON, and listed."""
        return list, (self.listed(),)

    def listed(self) -> list[Any]:
        """Return it as JSON, which stands in the ledger's list from now on."""
        if self._apart and self._app.conf.get("pecker_dsn"):
            submissions = at(self._app, role="caller").submissions
            submissions.list_source(_ref(self._task, self._apart))
        return self._apart

    __json__ = listed


def to_be_listed(app: Celery, task: str, apart: Sequence[Any]) -> Any:
    """Return Sources as they stand in a header of a signature of this process."""
    return ListedSources(app, task, apart) if any(map(_is_read, apart)) else apart


def sources_of(app: Celery, task: str, apart: Any) -> Any:
    """Return the Sources of a call's header, if this process made them or lists them.

    Raises:
        Misconfigured: they are not listed: they came with a message of unknown origin.
        DatabaseUnavailable: the list could not be asked.
    """
    local = isinstance(apart, ListedSources) or not app.conf.get("pecker_dsn")
    if not apart or local or not any(map(_is_read, apart)):
        return apart or ()
    if at(app, role="caller").submissions.is_listed(_ref(task, apart)):
        return apart
    raise Misconfigured(
        f"a message of {task} has a Source that the ledger does not list: code that"
        " makes a call lists its Sources in pecker_inputs"
    )


def joined(
    app: Celery,
    task: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """Return a call with the Sources that a header of its options has.

    Raises:
        Misconfigured, DatabaseUnavailable: as `sources_of`.
    """
    headers = {**(options.get("headers") or {})}
    sources = sources_of(app, task, headers.pop(HEADER, None))
    plain, named = join(args, kwargs, sources)
    if not options.get("headers"):
        return plain, named, {**options}
    return plain, named, {**options, "headers": headers or None}


def _is_read(pair: Any) -> bool:
    """Return whether a place and its JSON are not known to be of numbers alone."""
    if not isinstance(pair, (list, tuple)) or not isinstance(pair[-1], Mapping):
        return True
    document = pair[-1]
    layers = document[LAYERS] if document.keys() == {LAYERS} else [document]
    kinds = [one.get(SOURCE) for one in layers if isinstance(one, Mapping)]
    return any(kind != KeyRange.kind for kind in kinds)


def _ref(task: str, apart: Sequence[Any]) -> str:
    text = dumps([task, [*apart]], sort_keys=True)
    return f"source:{sha256(text.encode()).hexdigest()}"
