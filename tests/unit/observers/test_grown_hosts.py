"""A host that has grown is replaced: in which order, and which one is not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from celery_pecker.kernel.clock import monotonic
from celery_pecker.observers.hosts import supervised_hosts
from celery_pecker.testing import eventually

LIMIT = 100_000


class Process:
    """A process of a host that beats as the test says."""

    def __init__(self, age: float = 0.0) -> None:
        self.node = ""
        self.pid = 1
        self.memory = LIMIT + 1
        self.begun = monotonic() - age
        self.follows: bool | None = None
        self.code = 0
        self.signals: list[int] = []
        self.beats = 0
        self._beat = threading.Event()
        self._over = threading.Event()

    def wait_for_beat(self) -> bool:
        """Count a beat; False once it is to have ended."""
        self.beats += 1
        self._beat.wait(0.001)
        return not self._over.is_set()

    def signal(self, number: int) -> None:
        """Remember it."""
        self.signals.append(number)

    def end(self) -> int:
        """Have it end."""
        self._over.set()
        self.node = ""  # no table has it
        return self.code


def heard(process: Process) -> None:
    """Wait until its supervisor has listened some more times."""
    before = process.beats
    eventually(lambda: process.beats > before + 2, timeout=60.0)


@pytest.fixture
def host(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[..., supervised_hosts.SupervisedHost]:
    """Give what starts a host of these processes, one after another."""

    def make(*processes: Process) -> supervised_hosts.SupervisedHost:
        coming = iter(processes)

        def start(config: dict[str, Any]) -> Process:
            process = next(coming)
            process.follows = config["follows"]
            return process

        monkeypatch.setattr(supervised_hosts, "HostProcess", start)
        conf = {"pecker_observers_lease": 5.0, supervised_hosts.LIMIT: LIMIT}
        made = supervised_hosts.SupervisedHost({"name": "one", "conf": conf})

        def close() -> None:
            made.stop()
            for process in processes:
                process.end()
            assert made.join(60.0)

        request.addfinalizer(close)
        made.start()
        return made

    return make


def test_it_hands_over_once_the_next_one_is_up(host: Callable[..., Any]) -> None:
    """Not before: its observers would wait while that imports the app."""
    old, new = Process(age=600.0), Process()
    made = host(old, new)
    heard(new)
    heard(old)
    assert (old.follows, new.follows) == (True, False)
    assert old.signals == []
    new.node = "b"
    eventually(lambda: old.signals, timeout=60.0)
    old.end()
    heard(new)
    assert (old.signals, new.signals) == ([signal.SIGTERM], [])
    assert made.info() == {
        "name": "one",
        "pid": 1,
        "node": "b",
        "deaths": 0,
        "replaced": 1,
    }
    new.node = ""


def test_one_that_is_young_stays(host: Callable[..., Any]) -> None:
    """One that has more from its start on would be replaced for ever."""
    young = Process()
    made = host(young, Process())
    heard(young)
    assert made.info()["replaced"] == 0


def test_nothing_is_started_beside_two(host: Callable[..., Any]) -> None:
    """The next one has grown, too, before the old one has handed over."""
    old, new, third = Process(age=600.0), Process(age=600.0), Process(age=600.0)
    made = host(old, new, third)
    heard(new)
    assert (made.info()["replaced"], third.beats) == (1, 0)
    old.end()
    heard(third)
    assert made.info()["replaced"] == 2


def test_one_that_cannot_start_ends_no_other(host: Callable[..., Any]) -> None:
    """The one that has grown goes on, and the next one is tried again."""
    old, new, third = Process(age=600.0), Process(), Process()
    made = host(old, new, third)
    heard(new)
    new.code = supervised_hosts.CANNOT_START
    new.end()
    heard(third)
    assert (made.failed, made.info()["deaths"], old.signals) == (False, 1, [])
    old.end()
    eventually(lambda: made._replaced_process is None, timeout=60.0)
    third.code = supervised_hosts.CANNOT_START
    third.end()
    assert made.join(60.0)
    assert made.failed


def test_a_stop_reaches_both(host: Callable[..., Any]) -> None:
    """The one that hands over, and the one that takes over."""
    old, new = Process(age=600.0), Process()
    made = host(old, new)
    heard(new)
    made.stop()
    assert (old.signals, new.signals) == ([signal.SIGTERM], [signal.SIGTERM])
    new.end()
    assert not made.join(0.01)
    old.end()
    assert made.join(60.0)


def test_one_that_dies_while_it_hands_over_is_named(
    host: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Else a leak that ends in a kill would not be seen anywhere."""
    old, new = Process(age=600.0), Process()
    made = host(old, new)
    heard(new)
    old.code = -9
    old.end()
    eventually(lambda: made._replaced_process is None, timeout=60.0)
    eventually(lambda: "ended (-9) while it handed over" in caplog.text, timeout=60.0)
