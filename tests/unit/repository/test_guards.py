"""The guards that can be taken out are where the list says that they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from tests.guards.__main__ import GUARDS
from tests.guards.guard import ROOT, Guard, shifted
from tests.parsed import parse, parse_file

SOAK = "pytest.mark.soak"
MARKS = "pytestmark"


def functions(path: str) -> set[str]:
    """Return the names of the tests of a module."""
    return {
        node.name
        for node in parse_file(ROOT / path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def faults(guard: Guard) -> Iterator[str]:
    """Give what does not fit the code."""
    found = guard.files()
    if len(found) != 1:
        yield f"{guard.text!r} is in {found or 'no file'}; a guard is in one"
    if guard.without == guard.text:
        yield "nothing is taken out"
    for path in found:
        source = (ROOT / path).read_text(encoding="utf-8")
        if path.endswith(".py"):
            try:
                parse(guard.taken_out(source))
            except SyntaxError as error:
                yield f"each test is red: {error}"
    path, _, name = guard.tests.partition("::")
    if not (ROOT / path).exists():
        yield f"there is no {path}"
    elif name and name.partition("[")[0] not in functions(path):
        yield f"{path} has no {name}"


def test_a_guard_is_where_it_is_said_to_be() -> None:
    """A list that no longer fits the code proves nothing when it is run."""
    wrong = {guard.name: found for guard in GUARDS if (found := [*faults(guard)])}
    assert not wrong


def test_a_guard_that_does_not_fit_is_seen() -> None:
    """The rule is none if it finds nothing."""
    fits = next(one for one in GUARDS if one.files()[0].endswith(".py"))
    for wrong in (
        replace(fits, text="not in any file"),
        replace(fits, text="return"),
        replace(fits, without=fits.text),
        replace(fits, without=f"{fits.text} ("),
        replace(fits, tests="tests/unit/test_none.py"),
        replace(fits, tests=f"{fits.tests.partition('::')[0]}::test_none"),
        replace(fits, also=("not in any file", "")),
    ):
        assert [*faults(wrong)]


def test_code_that_moves_into_another_block_takes_its_guard_along() -> None:
    """A move is no reason to name a guard anew."""
    guard = next(one for one in GUARDS if one.text.startswith("    "))
    source = (ROOT / guard.files()[0]).read_text(encoding="utf-8")
    deeper = source.replace(guard.text, shifted(guard.text, 4))
    assert guard.text not in deeper.splitlines(keepends=True)
    assert guard.taken_out(deeper) == deeper.replace(
        shifted(guard.text, 4), shifted(guard.without, 4)
    )


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


def test_no_guard_is_left_to_tests_that_make_test_leaves_out() -> None:
    """What holds a guarantee is tried with each change."""
    assert not [guard.name for guard in GUARDS if marked_soak(guard.tests)]
