"""Three command lines end, and tell, alike; docs/reference/cli.md has the table."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from io import StringIO
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner, Result
from rich.console import Console

from celery_pecker.surfaces.cli import FLAT, pecker
from celery_pecker.surfaces.console.documents import plain
from celery_pecker.surfaces.console.group import examples
from celery_pecker.surfaces.console.instants import for_people
from celery_pecker.surfaces.console.listing import Listing
from celery_sharding import Sharding
from celery_sharding.cli import sharding
from tests.docs.pages import ROOT
from throttle.cli import throttle

GROUPS: dict[str, click.Group] = {
    "pecker": pecker,
    "sharding": sharding,
    "throttle": throttle,
}
CLOSED = "127.0.0.1:1"
ARGUMENTS = {
    "pecker schedule show": ("tick",),
    "pecker health": ("--pace",),
    "pecker observer explain": ("eth",),
    "pecker outbox explain": ("17",),
    "pecker history": ("tick",),
    "pecker import": ("last.json",),
    "pecker limit explain": ("17",),
    "pecker limit list": ("--once",),
    "pecker limit record": ("--seconds", "1", "--to", "run.json"),
    "pecker limit set": ("main", "5"),
    "pecker schedule history": ("report",),
    "pecker schedule once": ("proj.tick", "--at", "2031-01-01T12:00Z"),
    "pecker schedule remove": ("report",),
    "pecker schedule rename": ("report", "monthly"),
    "pecker schedule set": ("report", "--task", "t", "--every", "5"),
    "pecker schedule next": ("tick",),
    "pecker schedule pause": ("tick",),
    "pecker schedule resume": ("tick",),
    "pecker schedule run": ("tick",),
    "sharding concurrency": ("job", "2"),
    "sharding rerun": ("job", "0"),
    "throttle explain": ("17",),
    "throttle limit": ("main", "5"),
    "throttle record": ("--seconds", "1", "--to", "run.json"),
    "throttle top": ("--once",),
}
ASKS_NOBODY = {
    "pecker doctor",
    "pecker flower",
    "pecker intake",
    "pecker job",
    "pecker now",
    "pecker observe",
    "throttle serve",
}
"""Commands that do not end with 3 at a server that is away."""


def walked(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands below a group that help has, by their words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from walked(command, f"{path} {name}")


EVERY = {
    path: command
    for group, commands in GROUPS.items()
    for path, command in walked(commands, group)
}
NOUNS = ("pecker schedule", "pecker limit")


def names() -> list[str]:
    """Return all commands: ``pecker schedule list`` and so on."""
    return [
        path
        for path in EVERY
        if path not in NOUNS and (path.count(" ") == 1 or path.startswith(NOUNS))
    ]


def run(name: str, *words: str) -> Result:
    """Run a command of an app whose servers are all away."""
    app = Celery("proj", set_as_current=False, broker="memory://")
    app.conf.pecker_dsn = f"postgresql://nobody@{CLOSED}/nothing"
    app.conf.pecker_database_timeout = 0.5
    app.conf.beat_schedule = {"tick": {"task": "proj.tick", "schedule": 1.0}}
    app.conf.throttle_limits = {"main": 5}
    app.conf.throttle_redis_url = f"redis://{CLOSED}/0"
    Sharding(app)
    group, *command = name.split()
    context = CLIContext(app=app, no_color=True, workdir=None)
    return CliRunner().invoke(GROUPS[group], [*command, *words], obj=context)


def test_the_table_has_each_command() -> None:
    """And no other."""
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    told = re.findall(
        r"^\| `((?:pecker|sharding|throttle) [\w ]+)` \|", page, re.MULTILINE
    )
    assert sorted(told) == sorted(names())


@pytest.mark.parametrize(
    "path", [path for path, one in EVERY.items() if not isinstance(one, click.Group)]
)
def test_help_is_narrow_and_has_two_examples_that_the_command_takes(path: str) -> None:
    """What is required stands first; what is shown can be typed."""
    first, *words = path.split()
    command: click.Command = GROUPS[first]
    for word in words:  # anew: some have two names, and the examples of the last
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word) or command
    told = command.get_help(click.Context(command, info_name=path))
    assert max(map(len, told.splitlines())) <= 80
    own = path.replace("pecker job", "sharding")
    mine = [one for one in examples() if f"{one} ".startswith(f"{own} ")]
    assert len(mine) == 2
    for one in mine:
        assert f"celery -A proj {one}" in told
        given = shlex.split(one)[len(own.split()) :]
        command.make_context(words[-1], given, resilient_parsing=False)
    required = [one.required for one in command.params]
    assert required == sorted(required, reverse=True)


@pytest.mark.parametrize("flat", sorted(FLAT))
def test_names_from_before_go_on_and_are_not_in_help(flat: str) -> None:
    """Scripts of people have them; `pecker pause` is `pecker schedule pause`."""
    context = click.Context(pecker)
    assert pecker.get_command(context, flat) is not None
    assert f"pecker {flat}" not in EVERY
    assert run(f"pecker {flat}", "--no-such-option").exit_code == 2


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("celery pecker sch", "schedule"), ("celery pecker schedule pau", "pause")],
)
def test_a_shell_completes_nouns_and_verbs(typed: str, completed: str) -> None:
    """As click does it; a noun alone does not stand for its usual command then."""
    environment = {
        **os.environ,
        "_CELERY_COMPLETE": "bash_complete",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    done = subprocess.run(
        [str(Path(sys.executable).with_name("celery"))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"plain,{completed}" in done.stdout.splitlines(), done.stderr


def test_a_noun_alone_lists_and_a_misspelt_verb_is_named() -> None:
    """As each group does."""
    assert run("pecker schedule").exit_code == 3  # its server is away
    told = run("pecker schedule", "pasue")
    assert told.exit_code == 2
    assert "pause" in told.stderr


@pytest.mark.parametrize("name", names())
def test_what_is_not_understood_ends_with_2(name: str) -> None:
    """An option that there is not."""
    if name == "pecker flower":
        pytest.skip("it hands its options on to Flower")
    assert run(name, "--no-such-option").exit_code == 2


@pytest.mark.parametrize("name", sorted({*names()} - ASKS_NOBODY))
def test_a_server_that_is_away_ends_with_3(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line on standard error, nothing where a document would be."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "last.json").write_text('{"tick": "2026-01-01T12:00:00Z"}')
    words = ARGUMENTS.get(name, ("job",) if name.startswith("sharding ") else ())
    if name in {"sharding list", "throttle check"}:
        words = ()
    done = run(name, *words)
    assert done.exit_code == 3, done.output
    if name != "throttle check":  # its lines are what it is asked for
        assert not done.stdout
        assert done.stderr.startswith("Error: ")
        assert len(done.stderr.splitlines()) == 1


def test_instants_have_one_form_for_programs_and_one_for_people() -> None:
    """UTC with Z, whatever zone they come in; the app's zone, by its name."""
    at = datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert plain({"at": at}) == {"at": "2026-01-01T12:00:00.000000Z"}
    assert datetime.fromisoformat(plain(at)) == at
    assert for_people(at, ZoneInfo("Europe/Berlin")) == "2026-01-01 13:00:00.000 CET"
    assert for_people(at, UTC, timespec="seconds") == "2026-01-01 12:00:00 UTC"
    assert json.dumps(plain(timedelta(seconds=1.5))) == "1.5"


@pytest.mark.parametrize("wide", [50, 80, 200])
def test_nothing_is_cut_on_a_narrow_terminal(wide: int) -> None:
    """Ids, names and figures are all there, and no line is too long."""
    ids = [f"{nth}5e0d5b0-1d54-4f5b-9d5c-0f5b8e7a5b9{nth}" for nth in range(3)]
    heads = ("id", "task", "state", "done", "items", "failed", "submitted (UTC)")
    listing = Listing(*heads, right={"done", "items", "failed"}, title="3 jobs")
    for one in ids:
        cells = ("invoices.tasks.send_all", "running", "12.5%", "1,000,000", "17")
        listing.add_row(one, *cells, "2026-01-01 12:00:00")
    console = Console(file=StringIO(), width=wide, highlight=False)
    console.print(listing)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    text = "\n".join(lines)
    assert max(map(len, lines)) <= wide
    assert "…" not in text
    for word in (*ids, "3 jobs", "invoices.tasks.send_all", "1,000,000", "12:00:00"):
        assert word in text, text
    assert (lines[1].split()[0] == "id") == (wide == 200)
