# ruff: noqa: INP001  # a script beside the pages
"""Print the tables of settings into their reference pages: python docs/settings.py.

A setting is declared once, with its kind, its default and its sentence, so that a page
cannot say anything else than the code; a test compares the two.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from dataclasses import MISSING, fields
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

from celery_pecker.kernel.declared import Declared, former
from celery_pecker.kernel.settings import Settings
from celery_sharding.settings import ShardingSettings
from throttle.settings import Settings as ThrottleSettings

REFERENCE = Path(__file__).parent / "reference"
PAGES: dict[str, type[Declared]] = {
    "settings.md": Settings,
    "sharding.md": ShardingSettings,
    "throttle.md": ThrottleSettings,
}
MARK = "<!-- printed by docs/settings.py: change the declarations -->\n"
TABLE = re.compile(re.escape(MARK) + r"\n(\|.*\n)*")
SETTING = re.compile(r"(pecker|sharding|throttle)_[a-z_]+")
LONG_NUMBER = re.compile(r"(?<!:)\b(\d{4,}|1e\+\d+)\b")
"""But of a port."""
NEEDED = {"dsn": "needed", "app": "the app's `main` name"}


def sentences(settings: type[Declared]) -> dict[str, str]:
    """Return the text below each field, as one line."""
    [declared] = ast.parse(dedent(inspect.getsource(settings))).body
    assert isinstance(declared, ast.ClassDef)  # noqa: S101  # for the type checker
    found = {}
    for field, below in pairwise(declared.body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def default(field: Any) -> str:
    """Return the default of a field, as a user would write it."""
    if field.default_factory is not MISSING:
        return f"`{field.default_factory()!r}`"
    if field.default is MISSING:
        return NEEDED[field.name]
    value = field.default
    shown = f'"{value}"' if isinstance(value, str) else repr(value)
    return f"`{shown}`"


def table(settings: type[Declared]) -> str:
    """Return the rows of all settings of a package."""
    allowed, texts = settings.kinds(), sentences(settings)
    rows = ["| setting | default | allowed | what it says |", "|---|---|---|---|"]
    for field in fields(settings):  # type: ignore[arg-type]  # a dataclass
        kind = LONG_NUMBER.sub(
            lambda found: f"{float(found[0]):,.0f}",
            allowed[field.name].allowed if field.name in allowed else "",
        )
        name = f"`{settings.PREFIX}{field.name}`"
        rows.append(f"| {name} | {default(field)} | {kind} | {texts[field.name]} |")
    return "\n".join(rows)


def renamed() -> str:
    """Return the rows of settings that there once were."""
    rows = ["| setting | what became of it |", "|---|---|"]
    for name, said in former().items():
        text = SETTING.sub(lambda found: f"`{found[0]}`", said)
        rows.append(f"| `{name}` | {text} |")
    return "\n".join(rows)


def page(name: str) -> str:
    """Return a reference page with its tables as the declarations say now."""
    text = (REFERENCE / name).read_text(encoding="utf-8")
    tables = iter([table(PAGES[name]), renamed()])
    return TABLE.sub(lambda _: f"{MARK}\n{next(tables)}\n", text)


if __name__ == "__main__":
    for name in PAGES:
        (REFERENCE / name).write_text(page(name), encoding="utf-8")
        sys.stdout.write(f"{REFERENCE / name}\n")
