"""The reference page of sharded jobs is complete: what the code has, it has."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import celery_sharding
from celery_sharding import errors
from celery_sharding.model import Code, Options
from tests.docs.pages import ROOT
from tests.parsed import parse_file

DOCS = ROOT / "docs"
PACKAGE = Path(celery_sharding.__file__).parent
PAGE = (DOCS / "reference" / "sharding.md").read_text()


def rows(page: str) -> dict[str, str]:
    """Return the second column of each row that begins with a name."""
    return dict(re.findall(r"^\| `(\w+)`[^|]* \| (.*?) ?\|", page, re.MULTILINE))


def test_each_option_stands_in_its_reference_with_its_default() -> None:
    """As a decorator takes them."""
    told = rows(PAGE.partition("## Options")[2].partition("\n## ")[0])
    assert {*told} == {one.name for one in fields(Options)}
    for one in fields(Options):
        if one.name not in {"lease", "on_error"}:  # what holds in their place
            default = str(one.default) if isinstance(one.default, str) else one.default
            shown = told[one.name].strip("`").replace('"', "'")
            assert shown == repr(default), one.name


def test_each_code_stands_in_its_reference() -> None:
    """With its number and its name."""
    assert [
        one for one in Code if f"\n| {one.value} | `{one.name}` |" not in PAGE
    ] == []


def test_each_error_stands_in_its_reference_with_its_code() -> None:
    """A row for each class of errors.py."""
    known = {
        name: value.code
        for name, value in vars(errors).items()
        if isinstance(value, type)
        and issubclass(value, errors.ShardingError)
        and value.__module__ == errors.__name__
    }
    told = rows(PAGE.partition("## Errors")[2].partition("\n## ")[0])
    assert told == known


def test_each_public_name_stands_in_the_reference() -> None:
    """On its page."""
    missing = [
        name for name in celery_sharding.__all__ if not re.search(rf"\b{name}\b", PAGE)
    ]
    assert missing == []


def test_pages_that_the_code_names_are_there() -> None:
    """A docstring may send people to the documentation."""
    named = {
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text())
    }
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def said_by(path: Path) -> set[str]:
    """Return the longest words of each line that a file logs from INFO up."""
    calls = [
        node
        for node in ast.walk(parse_file(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).startswith("logger.")
        and not ast.unparse(node.func).endswith(".debug")
        and isinstance(node.args[0], ast.Constant)
    ]
    texts = [str(ast.literal_eval(node.args[0])) for node in calls]
    parts = [re.split(r"%[\w.]+", text.removeprefix("sharding: ")) for text in texts]
    longest = [max(some, key=len).strip(" ,:;") for some in parts]
    return {one for one in longest if one}


def test_each_line_of_the_log_stands_in_its_reference() -> None:
    """It is looked for by those who read it."""
    page = " ".join((DOCS / "reference" / "logs-and-signals.md").read_text().split())
    said = set().union(*(said_by(path) for path in PACKAGE.rglob("*.py")))
    assert said
    assert [text for text in sorted(said) if text not in page] == []


def test_importing_the_package_loads_neither_celery_nor_a_driver() -> None:
    """Each `celery` command imports it before it knows what it is asked for."""
    code = (
        "import sys, celery_sharding;"
        "print([m for m in ('celery', 'psycopg', 'kombu') if m in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]"
