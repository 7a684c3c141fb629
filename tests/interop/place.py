"""Celery's suite, an environment to run it in, and the servers that it talks to."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis
from tests.constraints import constraints
from tests.docs.scene import environment

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "build" / "interop"
SUITE = "t/integration"
NEEDS = (
    *("django", "psutil", "pydantic"),
    *("pytest", "pytest-timeout"),
)
"""What the suite imports, beside Celery and its extras. Not
pytest-rerunfailures: a test that is run six times hides what fails now and then."""
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")


class Absent(Exception):
    """Something that the suite needs cannot be had; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the suite is run."""

    source: Path
    """Celery's tests, unpacked."""
    python: Path
    """Of an environment with the suite's needs and our wheel."""


def pip(python: Path, *words: str | Path) -> None:
    """Run pip.

    Raises:
        Absent: pip fails; with the end of what it wrote.
    """
    done = subprocess.run(
        [python, *PIP, *words],
        env=environment(python),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        message = f"pip {' '.join(map(str, words))} failed:\n{done.stdout[-2000:]}"
        raise Absent(message)


def source(folder: Path, given: Path | None) -> Path:
    """Return the directory of Celery's tests, of the version that is installed.

    Args:
        folder: Where they are unpacked.
        given: The archive of Celery's source; else pip downloads it, once.

    """
    name = f"celery-{version('celery')}"
    archive = given or CACHE / f"{name}.tar.gz"
    if not archive.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        pip(
            Path(sys.executable),
            *("download", "--no-binary", "celery", "--no-deps", "--dest", CACHE),
            name.replace("-", "=="),
        )
    with tarfile.open(archive) as opened:
        # Without the package itself: the one of the environment is tested.
        parts = [
            member
            for member in opened.getmembers()
            if not member.name.startswith(f"{name}/celery/")
        ]
        opened.extractall(folder, parts, filter="data")
    unpacked = folder / name
    if not (unpacked / SUITE).is_dir():
        message = f"{archive} has no {SUITE}: name an archive that has it by --source"
        raise Absent(message)
    return unpacked


def python(folder: Path) -> Path:
    """Return the Python of an environment that can run the suite.

    It is made once for a version of Celery; the wheel in it is made anew each time.

    Args:
        folder: Where the wheel is laid.

    """
    made = CACHE / f"venv-{version('celery')}" / "bin" / "python"
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    pip(Path(sys.executable), *build, ROOT)
    (wheel,) = folder.glob("celery_pecker-*.whl")
    if not made.exists():
        venv.create(made.parents[1], with_pip=True)
        lock = constraints(made.parents[1])
        celery = f"celery[auth,redis,sqlalchemy]=={version('celery')}"
        pip(made, "install", "--prefer-binary", "-c", lock, celery, *NEEDS, wheel)
    pip(made, "install", "--force-reinstall", "--no-deps", wheel)
    return made


@contextmanager
def servers(
    *, postgres: bool
) -> Iterator[tuple[EmbeddedPostgres | None, EmbeddedRedis]]:
    """Give PostgreSQL and Redis of one run alone: the suite looks into both."""
    with ExitStack() as stack:
        database = (
            stack.enter_context(EmbeddedPostgres(fast=True)) if postgres else None
        )
        yield database, stack.enter_context(EmbeddedRedis(fast=True))
