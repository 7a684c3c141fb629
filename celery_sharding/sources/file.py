"""Records of a file that planner and workers can both read.

The records of a text file, one by one, and how many bytes each has.

What is broken stands in its place as `Unreadable`, so that places stay what they are.
"""

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from itertools import islice
from typing import IO, Any, ClassVar, Literal, get_args

from celery_sharding.errors import Misconfigured, ShardingError
from celery_sharding.sources.model import Sizes, Source, Unreadable

Record = tuple[int, Any]
"""Its bytes with its line ends, and blank lines before it; and what it is so far."""
ESCAPED = "surrogateescape"
"""Bytes that are no text pass through csv and are found behind it."""


def lines(file: Iterable[bytes], *, blank: bool) -> Iterator[Record]:
    """Yield every line, with blank ones or without, to be made an item."""
    length = 0
    for line in file:
        length += len(line)
        if blank or not line.isspace():
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


def converted(encoding: str, convert: Callable[[str], Any]) -> Callable[[bytes], Any]:
    """Return what makes an item of a line."""

    def item(line: bytes) -> Any:
        try:
            return convert(line.decode(encoding))
        except (ValueError, RecursionError) as error:
            shown = line.decode(errors="backslashreplace").strip("\r\n")
            return Unreadable(shown, f"{type(error).__name__}: {error}")

    return item


def without_end(line: str) -> str:
    """Return a line without what ends it."""
    return line.rstrip("\r\n")


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


Format = Literal["lines", "jsonl", "csv"]
BOM = b"\xef\xbb\xbf"


@dataclass(eq=False, repr=False)
class File(Source):
    """Records of a text file: lines, JSON lines, or CSV records as dicts by its header.

    It is read where its parts run, so each worker must find it at the same path, and
    it must not change while the job runs (lines that are added after its end do no
    harm). Planning reads it twice: to count, and to note where each part begins.
    Blank lines are no items, but for `lines`.
    """

    kind: ClassVar[str] = "file"

    path: str | os.PathLike[str]
    _: KW_ONLY
    format: Format = "lines"
    encoding: str = "utf-8"
    delimiter: str = ","

    def __post_init__(self) -> None:
        if self.format not in get_args(Format):
            allowed = ", ".join(get_args(Format))
            raise Misconfigured(
                f"File: format must be one of {allowed}, not {self.format!r}"
            )
        _check_encoding(self.encoding)
        if len(self.delimiter) != 1:
            raise Misconfigured(
                f"File: delimiter must be one character, not {self.delimiter!r}"
            )
        self.path = os.fspath(self.path)

    def __repr__(self) -> str:
        """Return how it was made."""
        return f"File({self.path!r}, format={self.format!r})"

    def as_json(self) -> dict[str, Any]:
        """Return its path, and how it is read."""
        return asdict(self)

    def parts(
        self, sizes: Sizes, conf: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], int | None]]:
        """Yield where in the file each part begins and ends, in bytes."""
        with self._open() as file:
            start, _ = self._begin(file)
            items = sum(1 for _ in self._records(file))
            file.seek(start)
            lengths = (length for length, _ in self._records(file))
            for count in sizes.of(items):
                # Blank lines behind a record belong to the part that follows.
                end = start + sum(islice(lengths, count))
                yield {"start": start, "end": end, "count": count}, count
                start = end

    def read(self, part: Mapping[str, Any], conf: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the records of a part; `Unreadable` in place of one that is broken."""
        with self._open() as file:
            size = os.fstat(file.fileno()).st_size
            if size < part["end"]:
                raise ShardingError(
                    f"{self!r} has {size} bytes, and had {part['end']} or more when the"
                    f" job was planned"
                )
            _, item = self._begin(file)
            file.seek(part["start"])
            for _, record in islice(self._records(file), part["count"]):
                yield item(record)

    def _open(self) -> IO[bytes]:
        try:
            return open(self.path, "rb")  # noqa: PTH123  # a text or a path
        except OSError as error:
            raise ShardingError(
                f"{self!r} cannot be read here: {error.strerror}"
            ) from error

    def _begin(self, file: IO[bytes]) -> tuple[int, Callable[[Any], Any]]:
        """Return where the first item begins, and what makes items of records.

        The file stands at that place.
        """
        start = len(BOM) if file.read(len(BOM)) == BOM else 0
        file.seek(start)
        if self.format == "lines":
            return start, converted(self.encoding, without_end)
        if self.format == "jsonl":
            return start, converted(self.encoding, json.loads)
        length, header = next(self._records(file), (0, []))
        if isinstance(header, Unreadable):
            raise ShardingError(
                f"{self!r} has no header that can be read: {header.reason}"
            )
        start += length
        file.seek(start)
        return start, named(header)

    def _records(self, file: IO[bytes]) -> Iterator[Record]:
        if self.format == "csv":
            return rows(file, self.encoding, self.delimiter)
        return lines(file, blank=self.format == "lines")


def _check_encoding(encoding: str) -> None:
    """Refuse encodings in which a line does not end with the one byte that says so."""
    try:
        plain = '\n",'.encode(encoding) == b'\n",'
    except (LookupError, TypeError):
        plain = False
    if not plain:
        raise Misconfigured(
            f"File: encoding must be one that contains ASCII, such as utf-8 or latin-1,"
            f" not {encoding!r}"
        )
