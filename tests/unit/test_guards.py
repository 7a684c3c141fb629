"""The guards that can be taken out are where the list says that they are."""

from __future__ import annotations

import ast

import pytest

from tests.guards.__main__ import GUARDS
from tests.guards.guard import Guard
from tests.guards.slot import ROOT
from tests.parsed import parse_file

SOAK = "pytest.mark.soak"
MARKS = "pytestmark"


def functions(path: str) -> set[str]:
    """Return the names of the tests of a module."""
    return {
        node.name
        for node in parse_file(ROOT / path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_is_where_it_is_said_to_be(guard: Guard) -> None:
    """A list that no longer fits the code proves nothing when it is run."""
    source = (ROOT / guard.file).read_text(encoding="utf-8")
    assert guard.text in source
    assert guard.without != guard.text
    if guard.file.endswith(".py"):
        ast.parse(source.replace(guard.text, guard.without))  # else each test is red
    path, _, name = guard.tests.partition("::")
    assert (ROOT / path).exists()
    assert not name or name.partition("[")[0] in functions(path)
    if guard.also is not None:
        assert guard.also[0] in (ROOT / guard.file).read_text(encoding="utf-8")


def marked_soak(path: str) -> bool:
    """Return whether a decorator of that test, or its module, leaves it to soak."""
    file, _, name = path.partition("::")
    if not file.endswith(".py"):
        return False
    wanted = name.partition("[")[0]
    said: list[ast.expr] = []
    for node in parse_file(ROOT / file).body:
        if isinstance(node, ast.FunctionDef) and node.name == wanted:
            said += node.decorator_list
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == MARKS:
            said.append(node.value)
    return any(SOAK in ast.unparse(one) for one in said)


@pytest.mark.parametrize("path", sorted({guard.tests for guard in GUARDS}))
def test_no_guard_is_left_to_tests_that_make_test_leaves_out(path: str) -> None:
    """What holds a guarantee is tried with each change."""
    assert not marked_soak(path)
