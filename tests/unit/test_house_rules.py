"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import io
import re
import tokenize
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
    "kernel/loop.py",
    "kernel/once_a_minute.py",
    "kernel/user_code.py",
    "runner/processor_call.py",
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


DIALECT = {"told", "given", "found", "said", "again", "here", "going", "coming"}
DIALECT |= {"patience", "twins", "keeper", "teller", "heard", "fates", "lately"}
DIALECT |= {"untold", "bequeath", "slay", "summon", "hasten", "obey", "insist"}
"""Words that name nothing: a reader has to look up what was told, given or found."""
OTHERS = {"NOT_FOUND", "FileNotFoundError", "ModuleNotFoundError"}
OTHERS |= {"JobNotFound", "InstanceNotFound", "CycleFound"}
"""Names that are not ours, and public errors: what was looked for is in the name."""
IN_PROSE = {"told", "said", "patience", "twins", "keeper", "teller", "telling"}
NOT_A_PROCESS = {"nobody", "somebody", "whoever", "anybody", "everybody", "whom"}
"""Words that hide which process, user or row is meant."""
RIDDLES = {"annals", "answerer", "asking", "debts", "doubts", "wanting", "way_out"}
RIDDLES |= {"complaints", "following", "outgoing", "tied", "traced", "twins"}
RIDDLES |= {"acting", "foreign", "leaving", "letters", "lodger", "onward", "seats"}
RIDDLES |= {"bounded", "looking", "several", "many", "behind", "space", "turns"}
RIDDLES |= {"taps", "rig", "back", "dead", "board", "judging", "conducting"}
RIDDLES |= {"carried", "ended", "each", "placing", "moved", "adjusting"}
RIDDLES |= {"alchemy", "book", "carrier", "course", "envelope", "hung", "law", "own"}
RIDDLES |= {"deciding", "facts", "striker", "timing", "unsettled"}
RIDDLES |= {"observing", "scribe", "silence", "supervising", "transfer", "of_app"}
"""Names of modules that said nothing to who looked for what is in them."""
PLAIN = [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]
"""Modules whose names and comments are free of them."""
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def parts(text: str) -> set[str]:
    """Return the words of a name or a sentence, in lower case."""
    return {part.lower() for part in PARTS.findall(text)}


def dialect(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines and the words that are not plain."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string not in OTHERS:
            if parts(token.string) & DIALECT:
                yield token.start[0], token.string
        elif token.type == tokenize.COMMENT or token.string.startswith('"""'):
            for word in sorted(parts(token.string) & (IN_PROSE | NOT_A_PROCESS)):
                yield token.start[0], word


def test_names_are_plain_words() -> None:
    """A stranger guesses what `reply` and `options` are, and not `told` and `given`."""
    assert len(PLAIN) > 550
    assert [
        f"{path}:{line}: {word}"
        for path in PLAIN
        for line, word in dialect(path.read_text(encoding="utf-8"))
    ] == []
    assert [str(path) for path in PLAIN if parts(path.stem) & DIALECT] == []
    assert [*dialect('told = 1\n"""It was said."""\n# given\n')] == [
        (1, "told"),
        (2, "said"),
    ]


def test_no_module_is_named_by_a_riddle() -> None:
    """A stranger finds by its name what sends, what is claimed, what is validated."""
    assert [str(one) for one in PLAIN if one.stem in RIDDLES] == []


def test_the_reference_is_in_plain_words() -> None:
    """What a table of the reference says is looked up by strangers."""
    pages = sorted((Path(__file__).parents[2] / "docs/reference").glob("*.md"))
    assert len(pages) > 8
    assert [
        f"{page.name}: {word}"
        for page in pages
        for word in sorted(parts(page.read_text(encoding="utf-8")) & IN_PROSE)
    ] == []


LONG = {
    "celery_pecker/local/runner.py",
    "celery_pecker/observers/hosts/host.py",
    "celery_pecker/observers/hosts/lives.py",
    "celery_pecker/schedules/stored_sync.py",
    "celery_pecker/stored_schedules/app.py",
    "celery_sharding/runner/shard_run.py",
    "throttle/admission/account.py",
    "throttle/worker/hook.py",
    "throttle/worker/overflow.py",
}
"""Modules of more than 300 lines: none joins them, and one that is split leaves."""


def test_no_further_module_grows_beyond_three_hundred_lines() -> None:
    """What has two duties is split by them."""
    long = {
        path.relative_to(package.parent).as_posix()
        for package in PACKAGES
        for path in package.rglob("*.py")
        if len(path.read_text(encoding="utf-8").splitlines()) > 300
    }
    assert long == LONG


WRITTEN_INTO = {
    *("self._connection.budget", "self.budget.at", "self._scope.budget.at"),
    "self._lease.state",  # a property, which has it written
    "self._mine.source",  # of a thread
    *("self.processor.pre_process", "self.processor.post_process"),
    # What Celery, kombu, py-amqp, Django and requests have no method for
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
    assert len(modules) > 600
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
        for path in PLAIN
        for name in shadowing(parse(path.read_text(encoding="utf-8")))
    ] == []
    assert [*shadowing(parse("def row(): ...\nx = {row.id for row in y}"))] == ["row"]
