"""The reference pages are complete: what the code has, they have."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import fields
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import psycopg
import pytest

import celery_pecker
from celery_pecker import signals
from celery_pecker.kernel import errors
from celery_pecker.kernel.sql import statements
from celery_pecker.schedules.declarations.reading import POLICIES
from celery_pecker.schedules.declarations.validation import KEYS
from celery_pecker.schedules.engine.model import Delivery, Misfire, RunMode
from tests.docs.pages import ROOT
from tests.parsed import parse_file

DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PACKAGE = Path(celery_pecker.__file__).parent
PACKAGES = ("celery_pecker", "celery_sharding", "throttle")
LAWS = DOCS / "maintainers" / "invariants.md"


def script(name: str) -> Any:
    """Return a script that writes pages, as a module."""
    spec = spec_from_file_location(f"pages_of_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_statements_are_those_of_the_code() -> None:
    """After a change: python docs/statements.py."""
    page = (DOCS / "maintainers" / "statements.md").read_text()
    assert page == script("statements").page()
    assert [
        f"\n## {label}\n" for label in statements() if f"\n## {label}\n" not in page
    ] == []


@pytest.mark.parametrize("name", ["settings.md", "sharding.md", "throttle.md"])
def test_the_settings_are_those_of_the_code(name: str) -> None:
    """After a change: python docs/settings.py."""
    page = (REFERENCE / name).read_text()
    printed = script("settings")
    assert page == printed.page(name)
    assert printed.table(printed.PAGES[name]) in page


def test_each_policy_stands_in_its_reference_with_its_values() -> None:
    """A row for each policy, and each value of a choice."""
    page = (REFERENCE / "policies.md").read_text()
    for policy in POLICIES:
        assert f"\n| `{policy}` |" in page
    for value in [*Delivery, *Misfire, *RunMode]:
        assert f'`"{value}"`' in page
    for key in KEYS:
        assert f"`{key}`" in page


def test_each_column_stands_in_its_reference(dsn: str) -> None:
    """As the migrated tables have them."""
    chapters = re.split(
        r"^## ", (REFERENCE / "tables.md").read_text(), flags=re.MULTILINE
    )
    told = {chapter.split("\n", 1)[0]: chapter for chapter in chapters}
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "select table_name, column_name from information_schema.columns"
            " where table_schema = 'public'"
        ).fetchall()
    assert found
    assert [f"{t}.{c}" for t, c in found if f"`{c}`" not in told.get(t, "")] == []


def test_pages_count_tables_and_import_names(dsn: str) -> None:
    """As many as there are: numbers in a text grow old unseen."""
    with psycopg.connect(dsn) as connection:
        [tables] = connection.execute(
            "select count(*) from pg_tables"
            " where schemaname = 'public' and tablename like 'pecker\\_%'"
        ).fetchone() or [0]
    page = (DOCS / "how-to" / "change-over.md").read_text()
    assert f"the {tables} `pecker_*` tables" in page
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    page = (DOCS / "how-to" / "throttle.md").read_text()
    told = f"{len(names)} import names: "
    [line] = [line for line in page.splitlines() if told in line]
    assert re.findall(r"`(\w+)`", line.partition(told)[2]) == names


def test_each_error_stands_in_its_reference() -> None:
    """A row for each class of errors.py."""
    page = (REFERENCE / "errors.md").read_text()
    known = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    assert known
    assert [name for name in known if f"\n| `{name}`" not in page] == []


def test_each_public_name_stands_in_the_reference() -> None:
    """Somewhere in it: policies, errors and signals have pages of their own."""
    pages = "\n".join(path.read_text() for path in REFERENCE.rglob("*.md"))
    told = [
        name for name in celery_pecker.__all__ if not re.search(rf"\b{name}\b", pages)
    ]
    assert told == []


def test_each_signal_stands_in_its_reference_with_its_event() -> None:
    """A row for each, and each field of what it tells."""
    page = (REFERENCE / "logs-and-signals.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+)$", page, re.MULTILINE))
    known = {
        name for name, one in vars(signals).items() if isinstance(one, signals.Signal)
    }
    assert known
    assert known <= set(rows)
    for name in known:
        event = getattr(signals, name.title().replace("_", ""))
        told = set(re.findall(r"`(\w+)`", rows[name]))
        assert {field.name for field in fields(event)} <= told, name


def test_each_law_that_the_code_cites_is_told() -> None:
    """I1 to I13 stand in the page, and the code cites no other."""
    told = re.findall(r"^## (I\d+): ", LAWS.read_text(), re.MULTILINE)
    assert told == [f"I{number}" for number in range(1, 14)]
    cited = {
        law
        for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.sql")]
        for law in re.findall(r"\b(I\d{1,2})\b(?=[),:]| …)", path.read_text())
    }
    assert cited
    assert cited <= set(told)


def as_said(path: Path) -> str:
    """Name a page by its folder too: two may treat of one thing."""
    return str(path.relative_to(DOCS))


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=as_said)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    """Code and tests are renamed more often than pages are read."""
    named = re.findall(
        r"`((?:celery_pecker|tests|docs|benchmarks|example_project)/[\w./-]+)`",
        page.read_text(),
    )
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_pages_that_the_code_names_are_there() -> None:
    """A docstring may send people to the documentation, each page by its name."""
    named = {
        name
        for folder in (*PACKAGES, "tests", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"\bdocs/[\w/*-]+\.md\b", path.read_text())
    }
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_links_of_the_readme_and_the_changelog_lead_somewhere() -> None:
    """Sphinx checks the others."""
    for page in ("README.md", "CHANGELOG.md"):
        links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text())
        assert [link for link in links if not (ROOT / link).exists()] == []


def test_each_line_of_the_log_stands_in_its_reference() -> None:
    """What is logged from INFO up is looked for by those who read it."""
    page = (REFERENCE / "logs-and-signals.md").read_text()
    said = {
        str(node.args[0].value).removeprefix("pecker: ")
        for path in PACKAGE.rglob("*.py")
        if "testing" not in path.parts
        for node in ast.walk(parse_file(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"info", "warning", "error", "exception"}
        and getattr(node.func.value, "id", "") == "logger"
        and isinstance(node.args[0], ast.Constant)
    }
    assert said
    assert [text for text in said if longest_phrase(text) not in page] == []


def longest_phrase(text: str) -> str:
    """Return the longest part of a log line that is the same each time."""
    parts = re.split(r"%[-+.\d]*[a-z]|[(:;]", text.partition(";")[0])
    return max(parts, key=len).strip(" ,=")


def test_the_readme_is_read_in_two_minutes() -> None:
    """No more than 900 words; the rest stands in docs."""
    assert len((ROOT / "README.md").read_text().split()) <= 900
