"""Python files as syntax trees, for the tests that read the code itself."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TRIES = 5


@cache
def parse_file(path: Path) -> ast.Module:
    """Return the tree of a file. It is shared: do not change it."""
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> ast.Module:
    """Return the tree of Python code.

    Python 3.11 counts the depth of all parsing threads in one number and may raise
    SystemError, if another thread parses too: one that logs a traceback does.

    Raises:
        SyntaxError: it is no Python.
    """
    for _ in range(TRIES - 1):
        try:
            return ast.parse(text)
        except SystemError:
            continue
    return ast.parse(text)
