"""Several who watch one database, of whom some are frozen and wake again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pytest

from celery_pecker.testing import eventually
from tests.oracle.store import Oracle
from tests.unit.throttle.doubles import Clock
from throttle.model import Amount, DatabaseReport, Report, Sample
from throttle.settings import Settings
from throttle.watch import ELECTED, Watcher, Watching
from throttle.watch.limit_factor import FLOOR, RECOVERY, Symptom

BUSY, WELL = [Symptom(2.0, "busy")], [Symptom(0.5, "well")]
SETTINGS = Settings.read(
    {
        "throttle_redis_url": "redis://not.asked",
        "throttle_estimator": "fast",
        "throttle_limits": {
            "main": {
                "operations": 1_000,
                "watch": {"dsn": "host=not.asked", "active": 10},
            }
        },
    }
)


class Server:
    """What PostgreSQL says of itself, and what happens before one has heard it."""

    sees_all = True

    def __init__(self) -> None:
        self.symptoms = BUSY
        self.meanwhile: Callable[[], None] | None = None

    def ask(self) -> Sequence[Symptom]:
        """Return the symptoms of the moment of the question."""
        symptoms, meanwhile, self.meanwhile = self.symptoms, self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return symptoms

    def close(self) -> None:
        """Nothing is open."""


class Crew:
    """Watchers with one store, whose clock is theirs."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = Oracle(self.clock)
        self.servers = {name: Server() for name in "ab"}
        self.watchers = {name: self.watcher(name) for name in "ab"}

    def watcher(self, name: str) -> Watcher:
        """Return one that asks its own server."""
        limit = SETTINGS.limits["main"]
        made = Watcher(SETTINGS, limit, self.store, name, self.clock)
        made._signal = self.servers[name]  # type: ignore[assignment]  # by its shape
        return made

    def elected(self) -> set[str]:
        """Return who takes itself for the one who watches."""
        return {name for name, one in self.watchers.items() if one.elected}

    def rounds(self, number: int, names: str = "ab") -> float:
        """Let them turn once a second; return the factor that is in force then."""
        told = DatabaseReport(samples=(Sample(0.2, Amount(500)),))
        web = Report(holder="web", name="web", databases={"main": told})
        for _ in range(number):
            self.clock.now += 1.0
            self.store.exchange(web)
            for name in names:
                self.watchers[name].round()
        return self.store.look()["main"].seen.factor


def test_one_that_wakes_up_does_not_say_what_it_saw_long_ago() -> None:
    """Another was elected meanwhile, and its verdict is the one in force."""
    crew = Crew()
    crew.rounds(1)
    assert crew.elected() == {"a"}

    def frozen() -> None:
        assert crew.rounds(12, "b") == FLOOR

    crew.servers["a"].symptoms, crew.servers["a"].meanwhile = WELL, frozen
    crew.watchers["a"].round()
    assert crew.elected() == {"b"}
    assert crew.rounds(1) == FLOOR


def test_time_in_which_another_watched_regains_nothing() -> None:
    """One that is elected again goes on from the verdict in force, second by second."""
    crew = Crew()
    crew.rounds(1)
    assert crew.rounds(12, "b") == FLOOR
    crew.watchers["b"].leave()
    crew.servers["a"].symptoms = WELL
    assert crew.rounds(1, "a") <= FLOOR + RECOVERY * ELECTED


def fails() -> None:
    """Raise what nobody expects."""
    raise ZeroDivisionError


def test_a_mistake_in_a_round_is_told_and_ends_no_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody would see that a limit is not watched any more."""
    crew = Crew()
    crew.servers["a"].meanwhile = fails
    with caplog.at_level(logging.WARNING):
        watching = Watching({"main": crew.watchers["a"]})
        assert eventually(lambda: "ZeroDivisionError" in caplog.text)
    alive = watching.alive
    watching.stop()
    assert alive
