"""The reference pages of throttle are complete: what the code has, they have."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import throttle
from tests.docs.pages import ROOT
from tests.parsed import parse_file
from throttle import errors, limits

DOCS = ROOT / "docs"
PACKAGE = Path(throttle.__file__).parent
PAGE = DOCS / "reference" / "throttle.md"


def rows(page: str) -> dict[str, str]:
    """Return the second column of each row that begins with a name."""
    return dict(re.findall(r"^\| `(\w+)`[^|]* \| (.+?) \|", page, re.MULTILINE))


def test_each_key_of_a_limit_stands_in_its_reference() -> None:
    """And what can be watched."""
    page = PAGE.read_text()
    assert set(limits.ALLOWED) <= set(rows(page))
    assert [name for name in limits.WATCHED if f"`{name}`" not in page] == []


def test_each_error_stands_in_its_reference() -> None:
    """A row for each class of errors.py."""
    known = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert known
    assert known <= set(rows(PAGE.read_text()))


def test_each_public_name_stands_in_the_reference() -> None:
    """Somewhere in it."""
    pages = "\n".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    told = [name for name in throttle.__all__ if not re.search(rf"\b{name}\b", pages)]
    assert told == []


def test_pages_that_the_code_names_are_there() -> None:
    """A docstring may send people to the documentation."""
    named = {
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text())
    }
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_each_line_of_the_log_stands_in_its_reference() -> None:
    """What is logged from INFO up is looked for by those who read it."""
    page = (DOCS / "reference" / "logs-and-signals.md").read_text()
    said = {
        text.removeprefix("throttle: ")
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(parse_file(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        for text in lines(node.func, node.args)
    }
    assert said
    phrases = {longest_phrase(text) for text in said} - {""}
    assert [text for text in sorted(phrases) if text not in page] == []


def lines(called: ast.Attribute, args: list[ast.expr]) -> list[str]:
    """Return the text that a call logs, if it does."""
    logs = getattr(called.value, "id", "") == "logger" and called.attr in LEVELS
    repeats = getattr(called.value, "attr", "") == "_once" and called.attr == "warning"
    text = args[repeats] if logs or repeats else None
    return [str(text.value)] if isinstance(text, ast.Constant) else []


LEVELS = {"info", "warning", "error", "exception"}


def longest_phrase(text: str) -> str:
    """Return the longest part of a log line that is the same each time."""
    parts = re.split(r"%[-+.\d]*[a-z]|[(:;]", text.partition(";")[0])
    return max(parts, key=len).strip(" ,=")
