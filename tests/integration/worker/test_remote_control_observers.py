"""``celery inspect observers`` and ``control pecker_drain``, answered by a worker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from celery import Celery
from celery.worker.control import Panel

from celery_pecker.worker import remote_control
from tests.integration.cli.observer_rows import LONG, write_observers


def worker(dsn: str, *nodes: str) -> Any:
    """Return what a command sees of a worker that supervises these hosts."""
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.pecker_dsn = dsn
    hosts = [{"name": "a", "pid": 7, "node": node, "deaths": 0} for node in nodes]
    blueprint = SimpleNamespace(info=lambda _: {"celery_pecker_observers": hosts})
    controller = SimpleNamespace(blueprint=blueprint)
    return SimpleNamespace(app=app, consumer=SimpleNamespace(controller=controller))


@pytest.fixture(autouse=True)
def without_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the answer however busy the machine is."""
    monkeypatch.setattr("celery_pecker.worker.remote_control.ANSWER_TIMEOUT", 60.0)


def states(dsn: str) -> dict[str, str]:
    """Return the states of hosts by name."""
    with psycopg.connect(dsn) as connection:
        return dict(
            connection.execute(
                "select name, state from pecker_observer_nodes"
            ).fetchall()
        )


def test_a_worker_says_what_its_hosts_run(dsn: str) -> None:
    """Its own alone, with load and lease; one that has just died has neither."""
    ids = write_observers(dsn)
    told = Panel.data["observers"](worker(dsn, ids["a"], ""))
    first, dead = told["hosts"]
    assert (first["load"], first["capacity"], first["state"]) == (4, 5, "up")
    assert first["names"] == {LONG: "running", "retry": "retrying", "leave": "stopping"}
    assert (dead["state"], dead["observers"], dead["names"]) == (None, 0, {})
    assert Panel.data["observers"](worker(dsn)) == {"hosts": []}


def test_the_hosts_of_one_worker_are_drained(dsn: str) -> None:
    """Not those of others; a worker without hosts says so."""
    ids = write_observers(dsn)
    mine = worker(dsn, ids["a"])
    drained = Panel.data["pecker_drain"](mine)
    assert drained == {"ok": "1 of 1 hosts are drained"}
    assert states(dsn) == {"a": "draining", "b": "draining", "c": "up"}
    assert "undrained" in Panel.data["pecker_undrain"](mine)["ok"]
    assert states(dsn) == {"a": "up", "b": "draining", "c": "up"}
    assert Panel.data["pecker_drain"](worker(dsn)) == remote_control.NO_HOSTS


def test_a_server_that_is_away_is_an_answer() -> None:
    """The worker goes on."""
    away = worker("postgresql://nobody@127.0.0.1:1/nothing", "node")
    assert "error" in Panel.data["observers"](away)
    assert "error" in Panel.data["pecker_drain"](away)
