"""Records of files: what is read, what is broken, and what is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from celery_sharding.errors import ShardingError
from celery_sharding.sources import File, Sizes, Unreadable

ONE = Sizes(least=1, most=1, wanted=1)


def records(source: File) -> list[Any]:
    """Return what its parts of one record each hold."""
    return [
        item
        for part, count in source.parts(ONE, {})
        for item in source.read(part, {})
        if count == 1
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give a file that is not there yet."""
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("body", "items"),
    [
        (b"", []),
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\n\r\nb", ["a", "", "b"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        (b"\n", [""]),
    ],
)
def test_lines(path: Path, body: bytes, items: list[str]) -> None:
    """Each line is an item, blank ones too; a mark at the beginning is none."""
    path.write_bytes(body)
    assert records(File(path)) == items


def test_a_broken_line_stands_in_its_place(path: Path) -> None:
    """It fails alone: the next shard item is the next line."""
    path.write_bytes(b'{"a": 1}\n\n{"a": \n[2]\n"\xff"\n')
    first, second, third, fourth = records(File(path, format="jsonl"))
    assert (first, third) == ({"a": 1}, [2])
    assert isinstance(second, Unreadable)
    assert second.text == '{"a": '
    assert second.reason.startswith("JSONDecodeError")
    assert isinstance(fourth, Unreadable)
    assert fourth.text == '"\\xff"'
    path.write_bytes(b"a\n\xff\n")
    assert [type(item) for item in records(File(path))] == [str, Unreadable]


def test_csv_records(path: Path) -> None:
    """Blank lines are none; a quote in the middle of a field is itself."""
    path.write_bytes(
        b'\n"a","b"\r\n1,"x\r\n\r\n,y"\r\n\r\n2,5" pipe\r\n3\r\n4,\xe9\n5,z\n\n'
    )
    found = records(File(path, format="csv"))
    assert found[0] == {"a": "1", "b": "x\r\n\r\n,y"}
    assert found[1] == {"a": "2", "b": '5" pipe'}
    assert found[2] == Unreadable("3", "1 fields, and the header names 2")
    assert found[3].reason == "bytes that are no text in the file's encoding"
    assert found[4] == {"a": "5", "b": "z"}
    latin = File(path, format="csv", encoding="latin-1")
    assert records(latin)[3] == {"a": "4", "b": "é"}


def test_a_quote_that_nobody_closes_costs_one_record(path: Path) -> None:
    """Of what is longer than a field may be: the rest is read."""
    path.write_text('a,b\n1,"open\n' + "2,x\n" * 100_000, encoding="utf-8")
    source = File(path, format="csv")
    sizes = Sizes(least=1, most=200_000, wanted=1)
    ((part, count),) = source.parts(sizes, {})
    first, *rest = source.read(part, {})
    assert count == 1 + len(rest) > 60_000
    assert first.reason.startswith("no CSV record: field larger than field limit")
    assert all(row == {"a": "2", "b": "x"} for row in rest[1:])


def test_parts_lie_side_by_side(path: Path) -> None:
    """A part is read from its own bytes: nobody reads what comes before."""
    path.write_bytes(b"a;b\n1;2\n3;4\n5;6\n")
    source = File(path, format="csv", delimiter=";")
    parts = [part for part, _ in source.parts(Sizes(least=1, most=2, wanted=1), {})]
    assert [(part["start"], part["end"]) for part in parts] == [(4, 12), (12, 16)]


def test_lines_that_are_added_later_are_not_read(path: Path) -> None:
    """A file that grows is planned as it was."""
    path.write_bytes(b"1\n2\n")
    source = File(path, format="jsonl")
    ((part, _),) = source.parts(Sizes(least=1, most=9, wanted=1), {})
    with path.open("ab") as file:
        file.write(b"3\n")
    assert [*source.read(part, {})] == [1, 2]
    path.write_bytes(b"1\n")
    with pytest.raises(ShardingError, match="has 2 bytes, and had 4 or more when"):
        next(source.read(part, {}))


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    """Each worker must find it at the same path."""
    with pytest.raises(ShardingError, match=r"File\('.*data', format='lines'\) cannot"):
        records(File(path))
    path.write_bytes(b'a,"\xff"\n1,2\n')
    with pytest.raises(ShardingError, match="has no header that can be read"):
        records(File(path, format="csv"))
