"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import celery_pecker
import celery_sharding
import throttle
from tests.parsed import parse, parse_file

HOUSES = (celery_pecker, celery_sharding, throttle)
PACKAGES = [Path(path) for one in HOUSES for path in one.__path__]
BROAD = {"Exception", "BaseException"}
CATCHES_ALL = {
    "kernel/aside.py",  # the caller raises it
    "kernel/loop.py",
    "kernel/once_a_minute.py",
    "kernel/user_code.py",
    "runner/limits.py",
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


WRITTEN_INTO = {
    *("self._connection.budget", "self.budget.at", "self._scope.budget.at"),
    "self._lease.state",  # a property, which has it written
    "self._mine.source",  # of a thread
    # Counts that a relay and its delivery share
    *("self.tally.sent", "self.tally.parked", "self.tally.rates"),
    *("self.tally.retried", "self.tally.broker"),
    "self.pending.refused",  # a count that a replica and its sending share
    "self.looked.snapshot",  # of the service's gate: an answer, or that there is none
    *("self.processor.pre_process", "self.processor.post_process"),
    # What Celery, kombu, py-amqp, psycopg, Django and requests have no method for
    "self._connection.wait",
    *("self._schedule.app", "self._schedule.nowfun", "self._schedule.now"),
    *("self._qos.callback", "self._qos.prev", "self._channel._confirm_selected"),
    *("self.instance.name", "self.poolmanager.pool_classes_by_scheme"),
}
"""Fields of others that are there to be written, as limits of time that move."""


INTO_ANOTHER = re.compile(r"self(\.\w+){2,}")


def late(tree: ast.Module) -> Iterator[str]:
    """Yield public fields that wait for a callback, and fields of others' written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            field = ast.unparse(node.target)
            hook = "Callable" in ast.unparse(node.annotation)
            if hook and field.startswith("self.") and not field.startswith("self._"):
                yield field
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for one in (part for target in targets for part in ast.walk(target)):
                if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
                    field = ast.unparse(one)
                    if INTO_ANOTHER.fullmatch(field):
                        yield field


def test_nobody_completes_what_another_has_made() -> None:
    """A callback is an argument of who calls it; a class changes its own fields."""
    found = {
        field
        for package in PACKAGES
        for path in package.rglob("*.py")
        for field in late(parse_file(path))
    }
    assert found == WRITTEN_INTO
    wired = "self.hook: Callable[[], None] | None = None\nself.a.b, c = 1, 2\n"
    plain = "self._hook: Callable[[], None] = hook\nself.a = b.c = 1\n"
    assert [*late(parse(wired))] == ["self.hook", "self.a.b"]
    assert [*late(parse(plain))] == []


def imports(tree: ast.Module, modules: Mapping[str, Path]) -> set[str]:
    """Return the modules of ours that one names, wherever it does."""
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{one.name}" for one in node.names}
            named |= inside & modules.keys() or {node.module}
    return named & modules.keys()


def circles(graph: Mapping[str, set[str]]) -> list[str]:
    """Return what is left once all that can be ordered is taken out."""
    left = {name: set(others) - {name} for name, others in graph.items()}
    while leaves := {name for name, others in left.items() if not others}:
        left = {n: others - leaves for n, others in left.items() if n not in leaves}
    used = set().union(*left.values())
    while idle := left.keys() - used:
        left = {n: others for n, others in left.items() if n not in idle}
        used = set().union(*left.values())
    return sorted(left)


def test_no_module_needs_itself_by_way_of_others() -> None:
    """Nor where a type checker, or a function as it runs, imports the other."""
    modules = {
        ".".join(path.relative_to(root.parent).with_suffix("").parts): path
        for root in PACKAGES
        for path in root.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    graph = {name: imports(parse_file(at), modules) for name, at in modules.items()}
    assert circles(graph) == []
    both = {"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": set[str](), "e": {"a"}}
    assert circles(both) == ["b", "c"]
    typed = parse("def f():\n if TYPE_CHECKING:\n  from a import b\n")
    assert imports(typed, {"a.b": Path(), "a": Path()}) == {"a.b"}


def shadowing(tree: ast.Module) -> Iterator[str]:
    """Yield variables of comprehensions that are functions or classes elsewhere."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    names = {one.name for one in tree.body if isinstance(one, kinds)}
    for node in ast.walk(tree):
        if isinstance(node, ast.comprehension):
            targets = ast.walk(node.target)
            found = {one.id for one in targets if isinstance(one, ast.Name)}
            yield from sorted(found & names)


def test_no_variable_of_a_comprehension_hides_a_function() -> None:
    """CPython 3.12.1 then takes a call of the function for one of the variable.

    `[row(x) for x in xs]` raised UnboundLocalError where `{row.id for row in xs}`
    stood in the same function: Flower's page of a sharded job was empty there.
    """
    assert [
        f"{path}: {name}"
        for package in PACKAGES
        for path in sorted(package.rglob("*.py"))
        for name in shadowing(parse_file(path))
    ] == []
    assert [*shadowing(parse("def row(): ...\nx = {row.id for row in y}"))] == ["row"]
