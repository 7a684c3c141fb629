"""Items, results and calls as bytes: Celery's JSON, compressed where that pays.

Never pickle: what is stored is read by another process, and perhaps another version.
"""

import zlib
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from kombu.utils.json import dumps, loads

from celery_sharding.errors import ItemNotSerializable

PLAIN, DEFLATED = b"j", b"z"
"""The first byte."""
WORTH = 512
"""Bytes from which on compressing pays."""
REFUSALS = (TypeError, ValueError, RecursionError, OverflowError, UnicodeError)


def encode(value: Any, *, what: str = "a value") -> bytes:
    """Return a value as bytes; raise ItemNotSerializable that names it."""
    try:
        text: bytes = dumps(value).encode()
    except REFUSALS as error:
        raise ItemNotSerializable(
            f"{what} cannot be written as JSON: {error}"
        ) from error
    return packed(text)


def packed(text: bytes) -> bytes:
    """Return JSON as it is stored."""
    if len(text) < WORTH:
        return PLAIN + text
    return DEFLATED + zlib.compress(text, 1)


def encode_items(
    items: Sequence[Any], places: Iterable[int] | None = None, where: str = ""
) -> bytes:
    """Return items as bytes; the error names the one that is no JSON, and its place."""
    try:
        return encode([*items])
    except ItemNotSerializable:
        for place, item in zip(places or count(), items, strict=False):
            encode(item, what=f"item {place}{where} ({type(item).__name__})")
        raise


def decode(body: bytes) -> Any:
    """Return what `encode` was given, with tuples as lists."""
    kind, rest = body[:1], body[1:]
    if kind == DEFLATED:
        rest = zlib.decompress(rest)
    return loads(rest.decode())


def storable(text: str) -> str:
    r"""Return text that PostgreSQL takes: no NUL, no half of a surrogate pair.

    A message that quotes a broken file has them, and the write was refused for ever.
    """
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
