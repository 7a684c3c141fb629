"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import celery_pecker
import celery_sharding
import throttle
from tests.parsed import parse, parse_file

HOUSES = (celery_pecker, celery_sharding, throttle)
PACKAGES = [Path(path) for one in HOUSES for path in one.__path__]
BROAD = {"Exception", "BaseException"}
CATCHES_ALL = {
    "kernel/loop.py",
    "kernel/once_a_minute.py",
    "kernel/user_code.py",
    "runner/foreign.py",
}
"""The loop, and the caller of code that is not ours.

Ruff's BLE001 lets a broad `except` pass that logs, which is how most of them look.
"""


def handlers(tree: ast.Module) -> Iterator[ast.ExceptHandler]:
    """Give each `except` that catches everything and keeps it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and not passes_on(node):
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(k is None or getattr(k, "id", None) in BROAD for k in kinds):
                yield node


def passes_on(handler: ast.ExceptHandler) -> bool:
    """Say whether what was caught is raised again, after a clean-up."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_everything_is_caught_in_named_places_only() -> None:
    """Elsewhere an unforeseen error must be seen, not logged and forgotten."""
    found = {
        str(path.relative_to(package))
        for package in PACKAGES
        for path in package.rglob("*.py")
        if any(handlers(parse_file(path)))
    }
    assert found <= CATCHES_ALL


def test_the_rule_sees_what_it_should() -> None:
    """It is no rule if it finds nothing."""
    broad = "try: x\nexcept (ValueError, Exception): y\n"
    bare = "try: x\nexcept: y\n"
    tidy = "try: x\nexcept BaseException: y(); raise\n"
    narrow = "try: x\nexcept (ValueError, OSError): y\n"
    texts = (broad, bare, tidy, narrow)
    assert [len(list(handlers(parse(text)))) for text in texts] == [1, 1, 0, 0]
