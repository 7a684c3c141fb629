"""A route is found as Celery finds modules, and what is wrong with it is one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from throttle.errors import Misconfigured
from throttle.route import load

Written = Callable[[str], str]


@pytest.fixture
def written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Written]:
    """Give a function that writes a module into the current directory."""
    monkeypatch.chdir(tmp_path)
    # As in the program `celery`: the current directory is none of the places
    elsewhere = [place for place in sys.path if place not in {"", str(tmp_path)}]
    monkeypatch.setattr(sys, "path", elsewhere)
    name = f"routes_of_{abs(hash(request.node.name))}"

    def write(text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield write
    sys.modules.pop(name, None)


def test_a_module_in_the_current_directory_is_found(written: Written) -> None:
    """As those of tasks are."""
    name = written("def database(task, args, kwargs, headers): return 'main'")
    found: Any = load(f"{name}.database")
    assert found("t", (), {}, {}) == "main"
    assert not any(place in {"", str(Path.cwd())} for place in sys.path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def database(:", "SyntaxError: invalid syntax"),
        ("raise RuntimeError('no\\nsuch thing')", "RuntimeError: no such thing"),
        ("import nowhere_at_all", "No module named 'nowhere_at_all'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_what_an_import_raises_is_one_line(
    written: Written, text: str, said: str
) -> None:
    """It names the setting and the reason; no traceback of ours."""
    name = written(text)
    with pytest.raises(Misconfigured) as caught:
        load(f"{name}.database")
    told = str(caught.value)
    assert told.startswith(f"throttle_route '{name}.database' cannot be imported: ")
    assert said in told
    assert "\n" not in told


@pytest.mark.parametrize("where", ["alone", "package.", ":name", ".name"])
def test_what_is_no_dotted_path_is_told_so(where: str) -> None:
    """Not by the words of the import system."""
    with pytest.raises(Misconfigured, match=r"dotted path, 'package\.module\.funct"):
        load(where)
