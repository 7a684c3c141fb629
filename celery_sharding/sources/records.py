"""The records of a text file, one by one, and how many bytes each has.

What is broken stands in its place as `Unreadable`, so that places stay what they are.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from celery_sharding.sources.model import Unreadable

Record = tuple[int, Any]
"""Its bytes with its line ends, and blank lines before it; and what it is so far."""
ESCAPED = "surrogateescape"
"""Bytes that are no text pass through csv and are found behind it."""


def lines(file: Iterable[bytes]) -> Iterator[Record]:
    """Yield every line, blank ones too, to be made an item by `text`."""
    for line in file:
        yield len(line), line


def filled(file: Iterable[bytes]) -> Iterator[Record]:
    """Yield every line that is not blank, to be made an item by `parsed`."""
    length = 0
    for line in file:
        length += len(line)
        if not line.isspace():
            yield length, line
            length = 0


def rows(
    file: Iterable[bytes], encoding: str, delimiter: str
) -> Iterator[tuple[int, list[str] | Unreadable]]:
    """Yield the fields of every CSV record; one with line ends in quotes is one."""
    length = 0

    def fed() -> Iterator[str]:
        nonlocal length
        for line in file:
            length += len(line)
            yield line.decode(encoding, errors=ESCAPED)

    # The reader asks for one more line only while a quote is open, so what it has
    # taken when it gives a record is that record.
    reader = csv.reader(fed(), delimiter=delimiter)
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield length, Unreadable("", f"no CSV record: {error}")
        else:
            if not fields:
                continue
            yield length, fields if _is_text(fields) else _broken(fields)
        length = 0


def text(encoding: str) -> Callable[[bytes], Any]:
    """Return what makes a line a text without its end."""

    def item(line: bytes) -> Any:
        try:
            return line.decode(encoding).rstrip("\r\n")
        except UnicodeDecodeError as error:
            return _unreadable(line, error)

    return item


def parsed(encoding: str) -> Callable[[bytes], Any]:
    """Return what makes a line the JSON that it holds."""

    def item(line: bytes) -> Any:
        try:
            return json.loads(line.decode(encoding))
        except (ValueError, RecursionError) as error:
            return _unreadable(line, error)

    return item


def named(header: list[str]) -> Callable[[list[str] | Unreadable], Any]:
    """Return what makes fields a dict by the header."""

    def item(fields: list[str] | Unreadable) -> Any:
        if isinstance(fields, Unreadable):
            return fields
        if len(fields) != len(header):
            reason = f"{len(fields)} fields, and the header names {len(header)}"
            return Unreadable(",".join(fields), reason)
        return dict(zip(header, fields, strict=True))

    return item


def _is_text(fields: list[str]) -> bool:
    joined = "".join(fields)
    if joined.isascii():
        return True
    try:
        joined.encode()
    except UnicodeEncodeError:
        return False
    return True


def _broken(fields: list[str]) -> Unreadable:
    shown = ",".join(fields).encode(errors="backslashreplace").decode()
    return Unreadable(shown, "bytes that are no text in the file's encoding")


def _unreadable(line: bytes, error: Exception) -> Unreadable:
    shown = line.decode(errors="backslashreplace").strip("\r\n")
    return Unreadable(shown, f"{type(error).__name__}: {error}")
