"""What supervisors are started with, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from celery import Celery

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.observers import Observers
from celery_pecker.observers.hosts.supervisor import Supervisor
from celery_pecker.worker import ObserversStep
from tests.integration.observers.conftest import SECONDS, heavy, watch


def observers_with(**conf: Any) -> Observers:
    """Return observers of an app with settings; nothing is asked of a server."""
    app = Celery("configured", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn="dbname=nowhere", **conf)
    observers = Observers(app)
    observers.observer(watch)
    return observers


def plans(supervisor: Supervisor) -> list[tuple[str, int]]:
    """Return name and capacity of each host."""
    return [(host.config["name"], host.config["capacity"]) for host in supervisor.hosts]


def test_hosts_and_their_capacity_come_from_settings() -> None:
    """Or from the command line, which goes before."""
    observers = observers_with(
        pecker_observers_hosts=2,
        pecker_observers_capacity=7,
    )
    assert plans(Supervisor(observers, name="a")) == [("a-0", 7), ("a-1", 7)]
    assert plans(Supervisor(observers, name="b", hosts=1, room=9)) == [("b-0", 9)]


PATH = """
import sys
from celery_pecker.observers.hosts.child import load
found = {"home": "away", "path": [sys.argv[1]], "modules": [], "conf": {}}
load({**found, "loglevel": "INFO"})
"""
AWAY = """
from celery import Celery
from celery_pecker.observers import Observers
app = Celery("away")
observers = Observers(app)
"""


def test_a_host_finds_the_app_where_its_supervisor_has_found_it(tmp_path: Path) -> None:
    """A path that was added in code is in no environment."""
    (tmp_path / "away.py").write_text(AWAY, encoding="utf-8")
    words = [sys.executable, "-c", PATH, str(tmp_path)]
    subprocess.run(words, check=True, timeout=SECONDS)
    config = Supervisor(observers_with()).hosts[0].config
    assert config["path"] == sys.path


def test_without_a_setting_the_capacity_is_worked_out() -> None:
    """From the cores and the memory of this machine."""
    [(_, capacity)] = plans(Supervisor(observers_with()))
    assert capacity >= 1


def test_a_kind_that_is_heavier_than_a_host_is_refused() -> None:
    """It would wait for ever."""
    observers = observers_with(pecker_observers_capacity=4)
    observers.observer(heavy, weight=5)
    with pytest.raises(Misconfigured, match="'heavy' has the weight 5"):
        Supervisor(observers)


def test_no_file_is_needed_to_supervise_without_the_app(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A container may have no place for one, and a disk may keep the password."""
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    words: list[str] = []
    monkeypatch.setattr(os, "execv", lambda _path, given: words.extend(given))
    mine = os.dup(0)
    try:
        Supervisor(observers_with(), name="a", hosts=2).become(
            Path("/nonexistent/pecker")
        )
        with open(0, closefd=False) as file:
            told = json.load(file)
    finally:
        os.dup2(mine, 0)
        os.close(mine)
    assert [one["name"] for one in told] == ["a-0", "a-1"]
    assert not [word for word in words if "nowhere" in word]


def test_two_on_one_machine_have_names_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A drain of one would drain both; the name is free again at the end of one."""
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    monkeypatch.setattr(os, "execv", lambda *_: None)

    def names(name: str) -> list[str]:
        made = Supervisor(observers_with(), name=name, hosts=2)
        made.become(tmp_path)
        return [host.config["name"] for host in made.hosts]

    def end_all() -> None:
        for one in psutil.Process().open_files():
            if str(tmp_path) in one.path:
                assert os.get_inheritable(one.fd)  # it outlives exec
                os.close(one.fd)

    assert [names(name) for name in ("a", "a", "b")] == [
        ["a-0", "a-1"],
        ["a-2", "a-3"],
        ["b-0", "b-1"],
    ]
    end_all()
    assert names("a") == ["a-0", "a-1"]
    end_all()


@pytest.mark.parametrize("capacity", [0, -1, 1.5, "many"])
def test_a_capacity_of_nothing_is_refused(capacity: object) -> None:
    """With what is allowed."""
    observers = observers_with(pecker_observers_capacity=capacity)
    with pytest.raises(Misconfigured, match="from 1 to 10000000"):
        Supervisor(observers)


def test_no_host_is_started_for_nothing() -> None:
    """An app whose observers are not declared yet is an app that was imported half."""
    app = Celery("empty", broker="memory://", set_as_current=False)
    app.conf.pecker_dsn = "dbname=nowhere"
    with pytest.raises(Misconfigured, match="no observer is declared"):
        Supervisor(Observers(app))


@pytest.mark.parametrize(
    ("value", "wanted"), [(None, False), ([], False), ({"observers"}, True)]
)
def test_workers_supervise_hosts_where_the_app_says_so(
    value: object, wanted: bool
) -> None:
    """By `pecker_worker`."""
    app = Celery("worker", set_as_current=False)
    app.conf.update(pecker_dsn="dbname=nowhere", pecker_worker=value)

    class Parent:
        pass

    parent: Any = Parent()
    parent.app = app
    assert (
        ObserversStep.include_if(ObserversStep.__new__(ObserversStep), parent) is wanted
    )
