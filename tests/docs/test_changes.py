"""How many files a change touches: each is made in a copy, used there, and thrown away.

What ``git status`` says is compared with the table of docs/maintainers/ways.md, pages
that scripts print left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

COPIED = ("celery_pecker", "celery_sharding", "throttle", "docs")
PRINTERS = ("settings", "vocabulary", "statements")
APP = "from celery import Celery; app = Celery('changes', set_as_current=False); "


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a maintainer writes for it, and how one sees that it works."""

    name: str
    """As in the table of ways.md."""
    before: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """A text of a file, and what is written above it."""
    new: Mapping[str, str] = field(default_factory=dict)
    """New files."""
    use: str
    """A program that prints `seen`."""
    seen: str


CHANGES = (
    Change(
        name="a setting",
        before={
            "celery_pecker/kernel/settings.py": (
                "    gate: Annotated[",
                '    tea: PositiveSeconds = 3.0\n    """How long tea draws."""\n',
            )
        },
        use=APP
        + """
from celery_pecker.kernel.settings import Settings
given = {"pecker_dsn": "dbname=x", "pecker_tea": 4}
print(Settings.read(given, main="a").tea)
print("pecker_tea" in open("docs/reference/settings.md").read())
try:
    Settings.read({**given, "pecker_tea": -1}, main="a")
except Exception as error:
    print(error)
""",
        seen=r"^4(\.0)?\nTrue\n.*pecker_tea.*-1",
    ),
    Change(
        name="a command",
        before={
            "celery_pecker/surfaces/cli/__init__.py": (
                '    "export":',
                '    "brew": "celery_pecker.surfaces.cli.brew:brew",\n',
            )
        },
        new={
            "celery_pecker/surfaces/cli/brew.py": '''\
"""``pecker brew``: tea."""

import click
from celery.bin.base import CeleryCommand


@click.command(cls=CeleryCommand)
def brew() -> None:
    """Brew tea."""
    click.echo("it draws")
'''
        },
        use=APP
        + """
from click.testing import CliRunner
from celery_pecker.surfaces.cli import pecker
for typed in (["--help"], ["brew"]):
    print(CliRunner().invoke(pecker, typed).output)
""",
        seen=r"brew +Brew tea[\s\S]*it draws",
    ),
    Change(
        name="a metric",
        before={
            "celery_pecker/surfaces/views/schedules.py": (
                '    Measure(\n        "overdue_seconds"',
                '    Measure("teas", "Teas that draw", "totals.paused"),\n',
            )
        },
        use="""
from types import SimpleNamespace
from celery_pecker.surfaces.metrics.measures import families
from celery_pecker.surfaces.views.schedules import SCHEDULES
[tea] = [one for one in SCHEDULES.measures if one.name == "teas"]
totals = SimpleNamespace(totals=SimpleNamespace(paused=7))
print([one.samples for one in families([tea], {(): totals})])
print("celery_pecker_teas" in open("docs/reference/vocabulary.md").read())
""",
        seen=r"celery_pecker_teas.*value=7\.0[\s\S]*True",
    ),
    Change(
        name="an alarm",
        before={
            "celery_pecker/alarms/kinds.py": (
                "class JobFailed(",
                '''\
class Cold(Kind, name="cold", finds=("find_cold",)):
    """Tea is cold."""

    sentence = "it has stood for {length}"


''',
            ),
            "celery_pecker/kernel/sql/alarms.sql": (
                "/* celery_pecker:find_failing */",
                """\
/* celery_pecker:find_cold */
-- Tea that has stood for long.
select 'tea', null::timestamptz, 300::float8, '', 'tea'

""",
            ),
        },
        use="""
from celery_pecker.alarms.kinds import KINDS
from celery_pecker.alarms.model import Finding
from celery_pecker.alarms.rules import read_rules
from celery_pecker.kernel.sql import statements
[rule] = read_rules({"cold": {}}, {})
[label] = rule.kind.finds
assert label in statements()
found = Finding(subject="tea", detail="", about="tea", number=300)
print(rule.kind.text(rule, found))
""",
        seen="it has stood for 5 min",
    ),
    Change(
        name="a Source",
        before={
            "celery_sharding/sources/__init__.py": (
                "def to_json(",
                '''\
@register
class Leaves(Source):
    """Leaves of tea."""

    kind: ClassVar[str] = "leaves"

    def as_json(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def parts(
        self, sizes: Sizes, conf: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], int | None]]:
        """Yield one part."""
        yield {"count": 2}, 2

    def read(self, part: Mapping[str, Any], conf: Mapping[str, Any]) -> Iterator[Any]:
        """Yield its leaves."""
        return iter(["leaf"] * part["count"])


''',
            )
        },
        use="""
from celery_sharding import sources
from celery_sharding.sources.model import Sizes
leaves = sources.from_json({"celery_sharding.source": "leaves"})
for part, count in leaves.parts(Sizes(least=1, most=9, wanted=1), {}):
    print([*sources.read(sources.refer(leaves, part), {})])
""",
        seen=r"\['leaf', 'leaf'\]",
    ),
    Change(
        name="a client that keeps deadlines",
        new={
            "celery_pecker/deadline/clients/kettle.py": '''\
"""A kettle that boils no longer than the deadline."""

from celery_pecker.deadline.budget import timeout


def install(kettle: object) -> None:
    """Let a kettle obey the deadline."""
    kettle.most = timeout(kettle.most)  # type: ignore[attr-defined]
'''
        },
        use="""
from types import SimpleNamespace
from celery_pecker import deadline
from celery_pecker.deadline.clients import kettle
one = SimpleNamespace(most=60.0)
with deadline.within(5):
    kettle.install(one)
print(one.most <= 5)
""",
        seen="True",
    ),
)


class Copy:
    """A repository of its own with the packages and their pages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        left_out = shutil.ignore_patterns("__pycache__", "_build", "*.png", "*.svg")
        for part in COPIED:
            shutil.copytree(ROOT / part, folder / part, ignore=left_out)
        self.git("init", "--quiet")
        (folder / ".gitignore").write_text("__pycache__\n")
        self.commit()

    def git(self, *words: str) -> str:
        """Return what git prints."""
        who = ("-c", "user.name=copy", "-c", "user.email=copy@localhost")
        return self._run("git", *who, *words)

    def commit(self) -> None:
        """Make what is there the state that changes are compared with."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "copy")

    def python(self, *words: str) -> str:
        """Return what a program prints that runs on the copy's packages."""
        return self._run(sys.executable, *words)

    def _run(self, *words: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(self.folder)}
        done = subprocess.run(
            words, cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Return a copy of the packages that `git` watches."""
    return Copy(tmp_path_factory.mktemp("changes"))


def counts() -> dict[str, int]:
    """Return how many files each change touches, by the page."""
    page = (ROOT / "docs" / "maintainers" / "ways.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([^|]+) \| (\d+) \|$", page, re.MULTILINE)
    return {name: int(count) for name, count in found}


@pytest.mark.xdist_group("changes")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_a_change_touches_as_many_files_as_the_page_says(
    copy: Copy, change: Change
) -> None:
    """And it works: what is written there is all that is to be written."""
    copy.git("checkout", "--quiet", ".")
    copy.git("clean", "--quiet", "-d", "--force")
    for path, (anchor, text) in change.before.items():
        file = copy.folder / path
        source = file.read_text(encoding="utf-8")
        assert source.count(anchor) == 1, f"{anchor!r} in {path}"
        file.write_text(source.replace(anchor, text + anchor), encoding="utf-8")
    for path, text in change.new.items():
        (copy.folder / path).write_text(text, encoding="utf-8")
    lines = copy.git("status", "--porcelain", "--untracked-files=all").splitlines()
    for printer in PRINTERS:
        copy.python(f"docs/{printer}.py")
    assert re.search(change.seen, copy.python("-c", change.use))
    assert len(lines) == counts()[change.name]


def test_each_counted_change_is_made() -> None:
    """The page says no number that nothing has tried."""
    assert {*counts()} == {change.name for change in CHANGES}
