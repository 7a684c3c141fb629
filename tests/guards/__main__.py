"""Take out one guard after the other in a copy of the tree; a test must go red.

A guarantee whose guard can be removed without anybody noticing is not tested. Each
entry of the lists beside this module names the guarantee, the text that holds it, what
stands there without it, and the tests that must fail then.

    python -m tests.guards                  all of them, one at a time
    python -m tests.guards throttle:        those whose names have these words
    python -m tests.guards --list held      their names, and nothing is run
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.guards import (
    alarms,
    commands,
    django_admin,
    flower_stored,
    following,
    groomer,
    intake,
    observers,
    observers_seen,
    outbox,
    pecker,
    renaming,
    sharding,
    stored,
    throttle,
)
from tests.guards.guard import Guard

ROOT = Path(__file__).parents[2]
COPIED = (
    *("celery_pecker", "celery_sharding", "throttle", "example_project"),
    *("tests", "pyproject.toml"),
)
GUARDS = (
    *alarms.GUARDS,
    *pecker.GUARDS,
    *commands.GUARDS,
    *following.GUARDS,
    *intake.GUARDS,
    *outbox.GUARDS,
    *django_admin.GUARDS,
    *flower_stored.GUARDS,
    *groomer.GUARDS,
    *observers.GUARDS,
    *observers_seen.GUARDS,
    *renaming.GUARDS,
    *sharding.GUARDS,
    *stored.GUARDS,
    *throttle.GUARDS,
)


def red_without(guard: Guard) -> tuple[bool, str]:
    """Whether a test fails once the guard is gone, and what pytest said."""
    with tempfile.TemporaryDirectory(prefix="pecker-guards-") as folder:
        copy = Path(folder)
        for part in COPIED:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(
                    source, copy / part, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                shutil.copy(source, copy / part)
        file = copy / guard.file
        before = file.read_text(encoding="utf-8")
        if before.count(guard.text) < 1:
            return False, f"the guard is not in {guard.file} any more: name it anew"
        after = before.replace(guard.text, guard.without)
        if guard.also:
            after = after.replace(*guard.also)
        file.write_text(after, encoding="utf-8")
        run = subprocess.run(  # our own tests
            [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", guard.tests],
            cwd=copy,
            # Flower, workers and schedulers that a test starts are of the copy, too.
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            check=False,
        )
    failed = [line for line in run.stdout.splitlines() if line.startswith("FAILED")]
    if run.returncode == 1 and failed:
        return True, failed[0].split(" - ")[0].removeprefix("FAILED ")
    if "Timeout" in run.stdout + run.stderr:
        return True, f"{guard.tests}, which never ends"
    return False, (run.stdout + run.stderr)[-300:]


def main() -> int:
    """Try every guard; the exit code counts those that nobody missed."""
    console = Console()
    parser = argparse.ArgumentParser(
        prog="python -m tests.guards",
        description="Take out one guard after the other; a test must go red.",
    )
    parser.add_argument("words", nargs="*", help="only guards whose names have these")
    parser.add_argument("--list", action="store_true", help="say which, run nothing")
    asked = parser.parse_args()
    wanted = " ".join(asked.words)
    guards = [guard for guard in GUARDS if wanted in guard.name]
    if asked.list:
        for guard in guards:
            console.print(guard.name, markup=False, soft_wrap=True)
        return 0
    table = Table("guard taken out", "", "test that went red")
    missing = 0
    for guard in guards:
        with console.status(f"without: {guard.name}"):
            red, said = red_without(guard)
        missing += not red
        table.add_row(guard.name, "red" if red else "[bold]NOT MISSED[/]", escape(said))
    console.print(table)
    return missing


if __name__ == "__main__":
    raise SystemExit(main())
