"""Adopt public applications as their operators would, by the documentation alone.

    python -m tests.field                     resolve beside four, adopt two of them
    python -m tests.field nautobot            adopt this one
    python -m tests.field --resolve           resolve only

The wheel of this checkout and each application are installed from the registry into an
environment of their own, which is kept under ``~/.cache/celery-pecker``, and run on
embedded servers: tables, a scheduler, a worker, an outbox, and what `health` says while
the scheduler lives and after it was killed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis
from tests.field.applications import ADOPTED, RESOLVED
from tests.field.scene import Scene

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
FOLDER = CACHE / "celery-pecker"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
RESOLVED_FOR = "3.12"
"""The oldest Python that all of them are made for."""
BEGAN = SYSTEM.monotonic()


def say(text: str) -> None:
    """Write what is done now, with the seconds since the start."""
    sys.stdout.write(f"field: {SYSTEM.monotonic() - BEGAN:6.1f} s  {text}\n")
    sys.stdout.flush()


class Refused(Exception):
    """An application does not go with us; the message says why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one application."""

    what: str
    why: str
    """Why it was refused; empty if it went as the documentation says."""

    def line(self) -> str:
        """Return it as the last lines have it."""
        said = f"REFUSED: {self.why}" if self.why else "ok"
        return f"{self.what}: {said}"


def tried(what: str, attempt: Callable[[], object]) -> Outcome:
    """Return what came of an attempt; one that is refused keeps no other from its turn.

    Only what an application may meet is an outcome: a mistake of this program is
    raised.
    """
    try:
        attempt()
    except (Refused, AssertionError) as error:
        say(f"{what}: {error}")
        lines = str(error).strip().splitlines() or [type(error).__name__]
        # Of the output of a command the last line says most
        return Outcome(what, lines[-1 if isinstance(error, Refused) else 0])
    return Outcome(what, "")


def run(*words: str | Path) -> str:
    """Run a command to its end; return its output.

    Raises:
        Refused: It failed.
    """
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        message = f"{' '.join(map(str, words))} failed:\n{done.stdout}"
        raise Refused(message)
    return done.stdout


def wheel(place: Path) -> Path:
    """Return the wheel of this checkout."""
    pip = (sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps")
    run(*pip, "--no-build-isolation", "--wheel-dir", place, ROOT)
    [found] = place.glob("celery_pecker-*.whl")
    return found


def uv() -> Path:
    """Return uv, which resolves without building what it only asks for its needs."""
    folder = FOLDER / "field-uv"
    program = folder / "bin" / "uv"
    if not program.exists():
        venv.create(folder, clear=True)
        pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
        run(*pip, "install", "-qq", "--disable-pip-version-check", "uv")
    return program


def resolved(place: Path, *needs: str) -> set[str]:
    """Return the versions that a resolver chooses for these requirements."""
    asked = place / "asked.txt"
    asked.write_text("\n".join(needs))
    words = ("pip", "compile", "-q", "--no-annotate", "--no-header", asked)
    return {*run(uv(), *words, "--python-version", RESOLVED_FOR).splitlines()}


def resolve(place: Path, ours: Path, requirement: str) -> None:
    """Resolve an application beside us.

    Raises:
        Refused: It would get another version of anything because of us.
    """
    alone = resolved(place, requirement)
    lost = alone - resolved(place, requirement, f"celery-pecker @ file://{ours}")
    if lost:
        message = f"beside us it loses {sorted(lost)}"
        raise Refused(message)
    say(f"{requirement}: none of its {len(alone)} versions changes")


def install(name: str, ours: Path) -> Path:
    """Return the Python of an environment that has the application and the wheel."""
    requirement = ADOPTED[name].requirement
    folder = FOLDER / f"field-{requirement.replace('==', '-')}-py{PYTHON}"
    python = folder / "bin" / "python"
    pip = (uv(), "pip", "install", "-q", "--python", python)
    if not (folder / "installed").exists():
        say(f"installing {requirement}")
        run(uv(), "venv", "-q", "--clear", "--python", sys.executable, folder)
        run(*pip, requirement)
        (folder / "installed").touch()
    run(*pip, "--reinstall-package", "celery-pecker", ours)
    return python


def adopt(name: str, place: Path, ours: Path) -> None:
    """Play all that an operator does with one application."""
    python = install(name, ours)
    with EmbeddedPostgres(fast=True) as postgres, EmbeddedRedis(fast=True) as redis:
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute("create database field")
        dsn = postgres.dsn_of("field")
        scene = Scene(ADOPTED[name], place, python, dsn, redis.url_of(1), say=say)
        scene.play(conninfo_to_dict(dsn))


def main() -> None:
    """End with a line for each application; with 0 if all went as documented."""
    parser = argparse.ArgumentParser(prog="python -m tests.field")
    parser.add_argument("names", nargs="*", help=" ".join(ADOPTED))
    parser.add_argument("--resolve", action="store_true", help="resolve only")
    options = parser.parse_args()
    unknown = {*options.names} - {*ADOPTED}
    if unknown:
        parser.error(f"{', '.join(unknown)}: allowed are {', '.join(ADOPTED)}")
    with tempfile.TemporaryDirectory(prefix="pecker-field-") as directory:
        place = Path(directory)
        ours = wheel(place)
        outcomes = [
            tried(f"resolve {one}", partial(resolve, place, ours, one))
            for one in (() if options.names else RESOLVED)
        ]
        for name in () if options.resolve else options.names or ADOPTED:
            (place / name).mkdir()
            turn = partial(adopt, name, place / name, ours)
            outcomes.append(tried(f"adopt {name}", turn))
    for outcome in outcomes:
        say(outcome.line())
    sys.exit(1 if any(outcome.why for outcome in outcomes) else 0)


if __name__ == "__main__":
    main()
