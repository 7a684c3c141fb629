"""What a page needs beyond a plain install, it names in a line of pip."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT, Step, scenarios, steps
from tests.parsed import parse

HAVE = {
    *sys.stdlib_module_names,
    *("celery", "celery_pecker", "celery_sharding", "kombu", "psycopg", "redis"),
    "throttle",
}
"""What a plain install brings."""
EXTRAS = {
    "celery_pecker.surfaces.flower": "celery-pecker[flower]",
    "celery_pecker.surfaces.metrics": "celery-pecker[metrics]",
    "celery_pecker.testing": "celery-pecker[embedded]",
    "flower": "celery-pecker[flower]",
    "prometheus_client": "celery-pecker[metrics]",
    "throttle.metrics": "celery-pecker[metrics]",
}
"""What brings a module; another is brought by the package of its name."""
BEFORE = {"django_celery_beat", "redbeat", "sqlalchemy_celery_beat"}
"""What a reader comes from, and has."""


def imported(page: str) -> Iterator[str]:
    """Give the modules that a page's blocks import, but for the page's own files."""
    found = [*steps(page)]
    own = {part.removesuffix(".py") for one in found for part in one.rest.split("/")}
    for node in (node for one in found for node in ast.walk(parsed(one))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        yield from (name for name in names if name.partition(".")[0] not in own)
    if any(re.search(r"^celery .*\bflower\b", one.text, re.MULTILINE) for one in found):
        yield "flower"
    if any(re.search(r"^pytest ", one.text, re.MULTILINE) for one in found):
        yield "pytest"


def parsed(step: Step) -> ast.Module:
    """Return the Python of a block; a part of a file may be none."""
    try:
        return parse(step.text if step.language == "python" else "")
    except SyntaxError:
        return parse("")


@pytest.mark.parametrize("page", scenarios())
def test_a_page_names_what_it_needs(page: str) -> None:
    """A reader with a plain install gets a ModuleNotFoundError from no page."""
    text = (ROOT / page).read_text()
    installed = " ".join(re.findall(r"pip install(.*)", text))
    for module in imported(text):
        top = module.partition(".")[0]
        need = EXTRAS.get(module, EXTRAS.get(top, None if top in HAVE else top))
        if need is not None and top not in BEFORE:
            assert need in installed, f"{page} imports {module} and installs no {need}"


@pytest.mark.parametrize("page", scenarios())
def test_tasks_of_a_page_log(page: str) -> None:
    """What a task prints is a line of the level WARNING in the worker's log."""
    for step in steps((ROOT / page).read_text()):
        for node in ast.walk(parsed(step)):
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                assert "print(" not in ast.unparse(node), f"{page}:{step.line}"
