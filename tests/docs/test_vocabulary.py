"""The page of words is true: what it names is there, and what is there keeps to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import click
import psycopg
import pytest

from celery_pecker.alarms import overview as alarms
from celery_pecker.observers import model as observers
from celery_pecker.outbox import overview as outbox
from celery_pecker.schedules.overview import model as entries
from celery_pecker.schedules.stored import model as stored
from celery_pecker.surfaces.cli import pecker
from celery_pecker.surfaces.views.alarms import ALARMS
from celery_pecker.surfaces.views.observers import OBSERVERS
from celery_pecker.surfaces.views.outbox import OUTBOX
from celery_pecker.surfaces.views.schedules import SCHEDULES
from celery_sharding.cli import sharding
from celery_sharding.ledger import rows as jobs
from tests.docs.pages import ROOT
from throttle.cli import throttle

REFERENCE = ROOT / "docs" / "reference"
PAGE = (REFERENCE / "vocabulary.md").read_text(encoding="utf-8")
INSTANTS = re.compile(r"_(at|until|since|due)$")
COLUMNS = "select column_name, data_type from information_schema.columns"
COLUMNS += " where table_schema = 'public'"
VIEWS = (OUTBOX, OBSERVERS, ALARMS, SCHEDULES)
FLOWERS = tuple(
    path
    for room in ("celery_pecker/surfaces", "celery_sharding", "throttle")
    for path in (ROOT / room / "flower").rglob("*.[hj]*")
)


def table(title: str) -> list[list[str]]:
    """Return the cells of the rows below a title."""
    text = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if "|" in line]
    return [[cell.strip(" |") for cell in row] for row in rows[2:]]


def words(cell: int) -> set[str]:
    """Return what the names of a column of the first table are."""
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line[:2] == "| "]
    found = [row[cell] for row in rows if len(row) == 6]
    return {one for text in found[1:] for one in re.findall(r"[`*]([\w-]+)[`*]", text)}


def commands() -> dict[str, click.Command]:
    """Return all commands of the three packages, by what is typed."""

    def walk(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(group, click.Group) or group.invoke_without_command:
            yield path, group
        if isinstance(group, click.Group):
            for name in group.list_commands(click.Context(group)):
                command = group.get_command(click.Context(group), name)
                assert command is not None
                yield from walk(command, f"{path} {name}")

    groups = {"pecker": pecker, "sharding": sharding, "throttle": throttle}
    return {
        path: one for name, group in groups.items() for path, one in walk(group, name)
    }


def keys() -> Iterator[str]:
    """Give the keys of what commands print as JSON."""
    for module in (alarms, observers, outbox, entries, stored, jobs):
        for one in vars(module).values():
            if isinstance(one, type) and is_dataclass(one):
                yield from (field.name for field in fields(one))


def test_what_is_typed_is_understood() -> None:
    """Options, arguments in capitals, and commands."""
    known = {word for path in commands() for word in path.split()}
    for command in commands().values():
        for param in command.params:
            known |= {*param.opts, str(param.name).upper()}
    assert words(1) - known == set()
    assert words(1)


def test_columns_and_keys_have_those_words(dsn: str) -> None:
    """In some table, and in some document."""
    with psycopg.connect(dsn) as connection:
        columns = {name for name, _ in connection.execute(COLUMNS.encode())}
    assert words(2) - columns == set()
    assert words(3) - {*keys()} == set()
    assert words(2)
    assert words(3)


def test_pages_and_metrics_have_those_words() -> None:
    """On some page of Flower; in the reference of metrics."""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in FLOWERS)
    for view in VIEWS:
        columns = (column for table in view.tables for column in table.columns)
        pages += view.title + "\n".join(one.label.capitalize() for one in columns)
    assert {one for one in words(4) if one not in pages} == set()
    names = " ".join(
        (REFERENCE / name).read_text(encoding="utf-8")
        for name in ("metrics.md", "throttle.md")
    )
    assert {one for one in words(5) if f"`{one}`" not in names} == set()
    assert words(4)
    assert words(5)


def test_instants_and_lengths_are_named_as_the_page_says(dsn: str) -> None:
    """A column that is an instant says so by its end, and a length of time too."""
    [line] = [row for row in table("Forms") if row[0] == "an instant"]
    others = {*re.findall(r"`([a-z]\w*)`", line[1].partition("beside them")[2])}
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(COLUMNS.encode()).fetchall()
    instants = {name for name, kind in rows if kind.startswith("timestamp")}
    assert {one for one in instants if not INSTANTS.search(one)} == others
    named = {name for name, _ in rows if INSTANTS.search(name)}
    assert named - instants == set()
    bigs = {name for name, kind in rows if name.endswith("_us") and kind != "ARRAY"}
    assert {kind for name, kind in rows if name in bigs} <= {"bigint", "ARRAY"}


def test_metrics_are_named_as_the_page_says() -> None:
    """Seconds say so, and nothing else measures time."""
    text = (REFERENCE / "metrics.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `(celery_\w+)` \| (\w+) \|", text, re.MULTILINE)
    assert len(found) > 50
    for name, kind in found:
        assert name.endswith("_total") == (kind == "counter"), name
        assert kind != "histogram" or name.endswith("_seconds"), name
        assert not re.search(r"_(us|ms|time|duration|age)$", name), name


@pytest.mark.parametrize("option", ["--json", "--limit"])
def test_options_are_where_the_page_says(option: str) -> None:
    """And in no other command; a list is of 1,000 rows at most."""
    [row] = [
        row for row in table("Options that many commands have") if option in row[0]
    ]
    named = {*re.findall(r"`((?:pecker|sharding|throttle)[\w ]+)`", row[1])}
    params: dict[str, Any] = {
        path: param
        for path, command in commands().items()
        for param in command.params
        if option in param.opts
    }
    if option == "--json":
        assert {*commands()} - {*params} == named
    else:
        most = {
            path: getattr(param.type, "max", None) for path, param in params.items()
        }
        assert {path for path, number in most.items() if number != 1_000} == named
