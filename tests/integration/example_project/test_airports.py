"""The import of the airports: its rows, its bad ones, and what its report finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from rich.console import Console

from celery_sharding import layers
from example_project.airports.play import Import
from example_project.airports.records import Record, records
from example_project.airports.story import failures, show
from example_project.store import statements

TOTAL = 49_430
BAD = 16


@pytest.fixture
def connection(empty_dsn: str) -> Iterator[psycopg.Connection]:
    """Give a connection to a database with the import's tables."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(statements()["airports_schema"].encode())
        yield connection


def seen() -> Import:
    """Return an import without fault."""
    return Import(
        told={"why": {"x": BAD}, "rows": [{"key": "airport _AYM", "why": "x"}]},
        rows=(234, 2_289, 18_609, TOTAL - 234 - 2_289 - 18_609 - BAD),
        done=TOTAL - BAD,
        failed=BAD,
        total=TOTAL,
        lasted=20.0,
        killed_at=0.4,
        gap=1.0,
    )


def written(connection: psycopg.Connection, rows: Sequence[Record]) -> Sequence[Record]:
    """Return those that PostgreSQL refuses; the others stand."""
    kinds: dict[str, list[Record]] = {}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(row)
    if len(kinds) > 1:
        return [bad for some in kinds.values() for bad in written(connection, some)]
    [(kind, some)] = kinds.items()
    try:
        with connection.transaction(), connection.cursor() as cursor:
            said = statements()[kind].encode()
            cursor.executemany(said, [record["row"] for record in some])
    except psycopg.IntegrityError:
        if len(some) == 1:
            return some
        half = len(some) // 2
        return [
            *written(connection, some[:half]),
            *written(connection, some[half:]),
        ]
    return ()


def test_each_row_has_its_layer_behind_what_it_refers_to() -> None:
    """Dependencies become layers; nobody wrote them down by hand."""
    cut = layers.toposort(records(), key="key", after="after")
    assert sum(map(len, cut)) == TOTAL
    there: set[str | None] = {None}
    for layer in cut:
        assert {record["after"] for record in layer} <= there
        there |= {record["key"] for record in layer}


def test_the_bad_rows_are_refused_by_postgresql_and_by_nobody_else(
    connection: psycopg.Connection,
) -> None:
    """They stand in the file as they are: nobody made them bad."""
    refused: list[Record] = []
    for layer in layers.toposort(records(), key="key", after="after"):
        refused += written(connection, layer)
    assert len(refused) == BAD
    assert {record["kind"] for record in refused} == {"import_airport"}
    row = connection.execute(statements()["airports_counted"].encode()).fetchone()
    assert row is not None
    assert sum(row) == TOTAL - BAD


def test_an_import_without_fault_passes() -> None:
    """And its report shows the rows that are bad, and why."""
    assert failures(seen()) == []
    console = Console(record=True, width=100)
    show(console, seen())
    said = console.export_text()
    assert "airport _AYM: x" in said
    assert f"{TOTAL:,} rows" in said


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"done": TOTAL}, "done and 16 refused"),
        ({"rows": (1, 2, 3, 4)}, "10 rows stand"),
        ({"told": {"why": {}}}, "not every one of 16 bad rows"),
        ({"killed_at": None}, "no worker was killed"),
    ],
)
def test_what_should_not_have_happened_is_said(
    wrong: dict[str, Any], said: str
) -> None:
    """Each of them fails the demo."""
    assert any(said in failure for failure in failures(replace(seen(), **wrong)))
