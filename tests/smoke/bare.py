"""The wheel with what it declares and nothing else; run by `make check`.

A new environment gets the wheel of this checkout by pip, in the versions of
requirements/dev.lock, and no package of the developers. There everything is imported
that needs no extra, and the README and the tutorials are played on servers that this
environment has and the new one has not.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import psycopg

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis
from tests.constraints import constraints
from tests.docs.scene import Scene, environment

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/tutorial/first-schedule.md",
    "docs/tutorial/first-sharded-job.md",
)
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")
LIMIT = 170.0
"""Seconds for one step."""
BEGAN = SYSTEM.monotonic()


def say(text: str) -> None:
    """Write what is done now, with the seconds since the start."""
    sys.stdout.write(f"smoke: {SYSTEM.monotonic() - BEGAN:5.1f} s  {text}\n")
    sys.stdout.flush()


def run(python: Path, *words: str | Path) -> None:
    """Run a Python to its end; exit with its words if it fails."""
    done = subprocess.run(
        [python, *words],
        cwd=python.parent,
        env=environment(python),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode:
        sys.exit(f"smoke: {' '.join(map(str, words))} failed:\n{done.stdout}")


def install(place: Path) -> Path:
    """Return the Python of a new environment that has the wheel."""
    say("building the wheel")
    ours, wheels = Path(sys.executable), place / "wheels"
    run(
        *(ours, *PIP, "wheel", "--no-deps", "--no-build-isolation"),
        *("--wheel-dir", wheels, ROOT),
    )
    [wheel] = wheels.glob("celery_pecker-*.whl")
    say(f"installing {wheel.name} into a new environment")
    venv.create(place / "bare", with_pip=True)
    python = place / "bare" / "bin" / "python"
    lock = constraints(place)
    run(python, *PIP, "install", "--only-binary", ":all:", "-c", lock, wheel)
    return python


def play(page: str, folder: Path, python: Path, servers: tuple[str, str]) -> None:
    """Do what a page shows, with that Python; `Wrong` says what did not happen."""
    dsn, url = servers
    words = {
        "postgresql://app@localhost/app": dsn,
        "redis://localhost/0": url,
    }
    folder.mkdir()
    scene = Scene(folder=folder, dsn=dsn, words=words, python=python)
    scene.play_page(page)


def main(place: Path) -> None:
    """Exit with a reason, or with 0 when all of it works."""
    python = install(place)
    say("importing each module and entry point; missing each extra")
    run(python, "-I", ROOT / "tests" / "smoke" / "bare_imports.py")
    with EmbeddedPostgres(fast=True) as postgres, EmbeddedRedis(fast=True) as redis:
        for number, page in enumerate(PAGES):
            say(f"playing {page}")
            name = re.sub(r"\W", "_", Path(page).stem.lower())
            with psycopg.connect(postgres.dsn, autocommit=True) as connection:
                connection.execute(f"create database {name}")
            servers = postgres.dsn_of(name), redis.url_of(number)
            try:
                play(page, place / name, python, servers)
            except (AssertionError, subprocess.SubprocessError) as error:
                sys.exit(f"smoke: {error}")
    say("the wheel needs nothing that it does not declare")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="pecker-bare-") as directory:
        Path(directory).chmod(0o711)
        main(Path(directory))
