"""A project that has a module called `throttle` keeps it, and hears what that costs."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from celery import Celery, signals

from celery_pecker.surfaces.console import entry_points, namesake
from throttle.cli import throttle as ours

APP = """
import throttle
from celery import Celery

print(throttle.limit())
app = Celery("shop", broker="memory://")
app.conf.throttle_limits = {"main": 1}
"""
CELERY = (str(Path(sys.executable).with_name("celery")), "-A", "shop")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give the directory of an app beside whose module lies a `throttle.py`."""
    (tmp_path / "throttle.py").write_text('def limit(): return "the project\'s"\n')
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


@pytest.mark.parametrize("words", [("throttle", "check"), ("worker", "-P", "solo")])
def test_a_project_keeps_its_own_module(project: Path, words: tuple[str, ...]) -> None:
    """The command says that it is not there; with limits a worker does not start."""
    done = subprocess.run(
        [*CELERY, *words], cwd=project, capture_output=True, text=True, check=False
    )
    assert "the project's" in done.stdout
    assert done.returncode == 1
    assert f"{project}/throttle.py, which hides the package 'throttle'" in done.stderr
    assert ("throttle_limits is set" in done.stderr) == (words[0] == "worker")


def test_a_worker_names_the_module_that_hides_ours(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without limits nobody asked for a gate: a line in its log, and pages of none."""
    monkeypatch.delitem(sys.modules, "throttle")
    monkeypatch.setattr(sys, "argv", ["celery", "--workdir", str(project)])
    here = "celery_pecker.surfaces.console.entry_points"
    app = Celery(set_as_current=False)
    try:
        assert entry_points.command(sys.argv[1:]).name == "throttle"
        with caplog.at_level(logging.WARNING, "throttle"):
            signals.celeryd_after_setup.send(
                sender="w@h", instance=SimpleNamespace(app=app), conf=app.conf
            )
    finally:
        signals.celeryd_after_setup.disconnect(dispatch_uid=here)
    assert f"{project}/throttle.py" in caplog.text
    assert entry_points.PAGES == ()


def test_where_the_name_is_free_it_is_ours(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imported already, beside celery_pecker, or elsewhere than the app."""
    assert namesake.other([f"--workdir={project}"]) is None
    monkeypatch.delitem(sys.modules, "throttle")
    assert namesake.other([f"--workdir={project}"]) == project / "throttle.py"
    assert namesake.other(["--workdir", str(project / "elsewhere")]) is None
    assert entry_points.command(["--workdir", str(project / "elsewhere")]) is ours
