"""The page of words is true: what it names is there, and what is there keeps to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
import psycopg
import pytest

from celery_pecker.surfaces.cli import pecker
from celery_sharding.cli import sharding
from tests.docs.pages import ROOT
from tests.docs.test_references import script
from throttle.cli import throttle

REFERENCE = ROOT / "docs" / "reference"
PAGE = (REFERENCE / "vocabulary.md").read_text(encoding="utf-8")
INSTANTS = re.compile(r"_(at|until|since|due)$")
COLUMNS = "select column_name, data_type from information_schema.columns"
COLUMNS += " where table_schema = 'public'"


def table(title: str) -> list[list[str]]:
    """Return the cells of the rows below a title."""
    text = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if "|" in line]
    return [[cell.strip(" |") for cell in row] for row in rows[2:]]


def words(cell: int) -> set[str]:
    """Return what the names of a column of the first table are."""
    text = PAGE.split("\n## ")[1]
    rows = [line.split("|") for line in text.splitlines() if line[:2] == "| "]
    return {*re.findall(r"`([\w-]+)`", " ".join(row[cell + 1] for row in rows))}


OTHERS = ("pecker job", "pecker limit")
"""Nouns whose commands are those of sharding and throttle."""


def commands() -> dict[str, click.Command]:
    """Return all commands of the three packages, by what is typed."""

    def walk(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(group, click.Group) or group.invoke_without_command:
            yield path, group
        if isinstance(group, click.Group):
            for name in group.list_commands(click.Context(group)):
                command = group.get_command(click.Context(group), name)
                assert command is not None
                if f"{path} {name}" not in OTHERS:
                    yield from walk(command, f"{path} {name}")

    groups = {"pecker": pecker, "sharding": sharding, "throttle": throttle}
    return {
        path: one for name, group in groups.items() for path, one in walk(group, name)
    }


def test_what_is_typed_is_understood() -> None:
    """Options, arguments in capitals, and commands."""
    known = {word for path in commands() for word in path.split()}
    for command in commands().values():
        for param in command.params:
            known |= {*param.opts, str(param.name).upper()}
    assert words(1) - known == set()
    assert words(1)


def test_columns_have_those_words(dsn: str) -> None:
    """In some table."""
    with psycopg.connect(dsn) as connection:
        columns = {name for name, _ in connection.execute(COLUMNS.encode())}
    assert words(2) - columns == set()
    assert words(2)


def test_the_words_of_views_are_those_of_the_code() -> None:
    """After a change: python docs/vocabulary.py."""
    assert script("vocabulary").page() == PAGE
    names = " ".join(
        (REFERENCE / name).read_text(encoding="utf-8")
        for name in ("metrics.md", "throttle.md", "../how-to/throttle-watch.md")
    )
    metrics = {*re.findall(r"`((?:celery_pecker|throttle)_\w+)`", PAGE)}
    assert {one for one in metrics if f"`{one}`" not in names} == set()
    assert metrics


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
