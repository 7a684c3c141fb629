"""What is imported is declared: no package of the developers stands in for it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PACKAGES = ("celery_pecker", "celery_sharding", "throttle")


def brought(needs: list[str]) -> set[str]:
    """Return the distributions that come with these requirements."""
    open_ = {(line, "") for line in needs}
    done: set[tuple[str, str]] = set()
    there: set[str] = set()
    while open_:
        line, extra = open_.pop()
        done.add((line, extra))
        need = Requirement(line)
        if need.marker is not None and not need.marker.evaluate({"extra": extra}):
            continue
        there.add(canonicalize_name(need.name))
        open_ |= {
            (further, wanted)
            for further in requires(need.name) or ()
            for wanted in ("", *need.extras)
        } - done
    return there


DECLARED_ONLY = """
import sys
from importlib.machinery import PathFinder

folder, *allowed = sys.argv[1:]
allowed = {*allowed, *sys.stdlib_module_names, "bare_imports"}


class Declared(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and not top.startswith("_sysconfigdata"):
            return None
        return super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Declared
sys.path.insert(0, folder)
import bare_imports

sys.exit("\\n".join([*bare_imports.modules(), *bare_imports.entry_points()]) or 0)
"""


def test_what_is_imported_is_declared() -> None:
    """As in an environment without any other package (tests/smoke/bare.py has one)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    there = {*brought(project["dependencies"]), "celery-pecker"}
    allowed = {*PACKAGES} | {
        module
        for module, owners in packages_distributions().items()
        if there & {canonicalize_name(owner) for owner in owners}
    }
    done = subprocess.run(
        [sys.executable, "-c", DECLARED_ONLY, str(ROOT / "tests" / "smoke"), *allowed],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
