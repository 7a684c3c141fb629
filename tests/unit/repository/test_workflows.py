"""What forks run on their own CI is what `make` does here."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.compat import OTHERS
from tests.guards.__main__ import GUARDS, part_of

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def commands(path: Path) -> list[str]:
    """Return the commands of all steps of a workflow."""
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def targets(command: str) -> list[str]:
    """Return what a command has made; options and variables are no targets."""
    return [
        word
        for made in re.findall(r"\bmake\b([^\n;&|]*)", command)
        for word in made.split()
        if not word.startswith("-") and "=" not in word
    ]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_makes_targets_that_exist(path: Path) -> None:
    """And does nothing else, but for packages of the system."""
    for command in commands(path):
        made = targets(command)
        assert made or command.startswith("sudo apt-get install"), command
        assert set(made) <= TARGETS, command


def test_actions_are_named_by_their_commits() -> None:
    """A tag can be moved to other code; the version stands beside the commit."""
    used = [
        line.partition("uses: ")[2]
        for path in WORKFLOWS
        for line in path.read_text().splitlines()
        if "uses: " in line
    ]
    assert used
    odd = [one for one in used if not re.fullmatch(r"\S+@[0-9a-f]{40}  # v[\d.]+", one)]
    assert not odd


def test_what_is_installed_has_hashes() -> None:
    """Each file of each package of the lock, and pip asks for them."""
    lock = (ROOT / "requirements" / "dev.lock").read_text()
    packages = re.findall(r"^\S+==.*(?:\n    --hash=.*)*", lock, re.MULTILINE)
    assert packages
    assert all("--hash=sha256:" in one for one in packages)
    made = (ROOT / "Makefile").read_text()
    assert "--require-hashes -r requirements/dev.lock" in made


def test_a_change_must_pass_all_that_make_check_does() -> None:
    """In the same order; a step that is added there is added to the workflow."""
    text = (ROOT / "Makefile").read_text()
    checked = re.search(r"^check:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert checked is not None
    wanted = re.findall(r"\$\(MAKE\) (\w+)", checked[1])
    [path] = [path for path in WORKFLOWS if path.stem == "check"]
    assert [made for one in commands(path) for made in targets(one)] == wanted


def test_only_ci_tries_a_failed_test_once_more() -> None:
    """Elsewhere what fails now and then is seen; CI names it at its end."""
    assert "RERUNS=" not in (ROOT / "Makefile").read_text()
    assert "make --no-print-directory check RERUNS=1" in (ROOT / ".ci/run").read_text()
    [path] = [path for path in WORKFLOWS if path.stem == "check"]
    assert "make test RERUNS=1" in commands(path)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "-raR" in project["tool"]["pytest"]["addopts"]


def test_each_guard_is_taken_out_every_night() -> None:
    """The parts of the workflow have each of them once: by words some were left out."""
    [path] = [path for path in WORKFLOWS if path.stem == "nightly"]
    job = yaml.safe_load(path.read_text())["jobs"]["guards"]
    parts = job["strategy"]["matrix"]["part"]
    assert len(parts) > 1
    some = [guard.name for part in parts for guard in part_of(GUARDS, part)]
    assert sorted(some) == sorted(guard.name for guard in GUARDS)


def tried_at_night() -> set[str]:
    """Return the versions that the nightly workflow runs the tests on."""
    [path] = [path for path in WORKFLOWS if path.stem == "nightly"]
    job = yaml.safe_load(path.read_text())["jobs"]["compat"]
    return {
        version
        for row in job["strategy"]["matrix"]["include"]
        for version in row["versions"].split()
    }


def test_every_minor_of_celery_is_tried_every_night() -> None:
    """Those that may be installed, but for the one that is locked."""
    project = (ROOT / "pyproject.toml").read_text()
    found = re.search(r"celery>=5\.(\d+),<5\.(\d+)", project)
    assert found is not None
    least, beyond = map(int, found.groups())
    assert {f"5.{minor}" for minor in range(least, beyond - 1)} <= tried_at_night()


def test_the_oldest_psycopg_that_may_be_installed_is_tried_every_night() -> None:
    """It is used by names of its own that are not public."""
    project = (ROOT / "pyproject.toml").read_text()
    found = re.search(r"psycopg\[binary\]>=([\d.]+),", project)
    assert found is not None
    assert f"psycopg-{found[1]}" in tried_at_night()


def test_each_list_of_tests_on_other_versions_is_run_every_night() -> None:
    """A version at least of all that has a list; PostgreSQL has a job of its own."""
    names = {version.rpartition("-")[0] for version in tried_at_night()}
    assert names - {""} == OTHERS.keys() - {"postgresql"}


def test_public_applications_are_adopted_every_night() -> None:
    """All of them; no change waits for what a registry has today."""
    [path] = [path for path in WORKFLOWS if path.stem == "nightly"]
    assert "make field" in commands(path)


def test_hooks_before_a_commit_are_those_of_lint() -> None:
    """They run the tools of the locked environment, and each of them."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    entries = [hook["entry"] for repo in hooks["repos"] for hook in repo["hooks"]]
    text = (ROOT / "Makefile").read_text()
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert lint is not None
    tools = [line.split("/")[1] for line in lint[1].splitlines()]
    assert [
        one.split("/")[-1].replace(" --force-exclude", "") for one in entries
    ] == tools


def test_targets_are_found_behind_options_and_variables() -> None:
    """It is no test if it finds nothing."""
    assert targets("make -s lint HOURS=2 && make types") == ["lint", "types"]
