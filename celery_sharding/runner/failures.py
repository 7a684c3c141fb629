"""What is recorded of an item, or of a shard as a whole, that failed."""

from __future__ import annotations

import traceback
from typing import Any

from celery_sharding.codec import encode, storable
from celery_sharding.errors import ItemNotSerializable
from celery_sharding.model import Code, Failure, Shard
from celery_sharding.sources import Unreadable

WHOLE = -1
"""The place of a failure that is the shard's, not an item's."""
MESSAGE, TRACE = 4_000, 16_000
"""Characters that are kept; of a traceback the last ones, which name the place."""
OUR_FRAMES = "celery_sharding/runner/"


def describe(error: BaseException | str) -> tuple[str, str, str | None]:
    """Return the type, the message and the traceback of an error, all of them short.

    A text is an error that was not raised.
    """
    if isinstance(error, str):
        return "Failed", storable(error)[:MESSAGE], None
    # Frames of this package do not explain why an item failed.
    trace = error.__traceback__
    while trace is not None and OUR_FRAMES in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    text = None
    if trace is not None:
        lines = traceback.format_exception(type(error), error, trace)
        text = storable("".join(lines))[-TRACE:]
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in {"builtins", "__main__"}:
        name = f"{kind.__module__}.{name}"
    return name, storable(_text_of(error))[:MESSAGE], text


def of_item(
    record: Shard,
    index: int,
    item: Any,
    error: BaseException | str,
    code: Code = Code.FAILED,
) -> Failure:
    """Return the failure of a shard's own item of that index."""
    kind, shown = None, item
    if isinstance(item, Unreadable):
        kind, shown = "Unreadable", item.text
    place, body = record.place(index), _encoded(shown)
    return _failure(record, place, error, code, kind=kind, item=body)


def of_shard(
    record: Shard, error: BaseException | str, code: Code = Code.FAILED
) -> Failure:
    """Return the failure of a shard as a whole."""
    return _failure(record, WHOLE, error, code)


def _failure(
    record: Shard,
    place: int,
    error: BaseException | str,
    code: Code,
    *,
    kind: str | None = None,
    item: bytes | None = None,
) -> Failure:
    """Return a failure at that place; `kind` in place of the error's own."""
    type_, message, trace = describe(error)
    return Failure(
        origin=record.origin,
        place=place,
        shard=record.shard,
        layer=record.layer,
        code=code,
        attempt=record.attempt + 1,
        type=kind or type_,
        message=message,
        traceback=trace,
        item=item,
    )


def _text_of(error: BaseException) -> str:
    """Return what an error says; some cannot even do that."""
    try:
        return str(error)
    except (TypeError, ValueError, AttributeError, LookupError):
        return "(it cannot be shown as text)"


def _encoded(item: Any) -> bytes | None:
    """Return an item as it is stored; one of a source may be no JSON."""
    try:
        return encode(item)
    except ItemNotSerializable:
        return None
