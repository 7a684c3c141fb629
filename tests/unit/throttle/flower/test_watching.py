"""One look a second, however many ask; and what is told when none comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from celery_pecker.testing import eventually
from tests.unit.throttle.incident import SETTINGS, Night
from throttle import flower as module
from throttle.errors import Misconfigured
from throttle.flower import IDLE, KEPT, OLD, RecentLooks
from throttle.model import View
from throttle.settings import Settings


class Slow(Night):
    """A store that answers when it may, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()
        self.may.set()
        self.asked = 0
        self.opened = 0

    def check(self) -> None:
        """It can be used."""

    def look(self) -> Mapping[str, View]:
        """Return what is known, once it may."""
        self.asked += 1
        self.may.wait(30.0)
        return super().look()


class Watch:
    """A clock that a test sets."""

    at = 100.0

    def __call__(self) -> float:
        """Return what it shows."""
        return self.at


@pytest.fixture
def store() -> Slow:
    """Give what is looked at."""
    return Slow()


@pytest.fixture
def clock() -> Watch:
    """Give the clock."""
    return Watch()


@pytest.fixture
def watching(
    store: Slow, clock: Watch, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RecentLooks]:
    """Give who watches, in quick turns."""
    monkeypatch.setattr(module, "EVERY", 0.01)

    def opens(_settings: Settings) -> Slow:
        store.opened += 1
        return store

    made = RecentLooks(SETTINGS, opens=opens, clock=clock)
    yield made
    store.may.set()
    made.close()


def until(condition: Callable[[], object]) -> None:
    """The condition came true."""
    eventually(condition, 30.0)


def test_the_first_who_asks_gets_an_answer(watching: RecentLooks, store: Slow) -> None:
    """Not an empty page; and one thread looks for all."""
    pictures = [watching.picture() for _ in range(20)]
    assert all(picture.held == 1204 for picture in pictures)
    assert store.opened == 1


def test_the_last_minutes_are_kept(watching: RecentLooks, store: Slow) -> None:
    """Traffic, the limit in force and what is held; an outage is none of them."""
    watching.picture()
    until(lambda: len(watching.past()) >= 3)
    first = watching.past()[0]
    assert first is not None
    assert first["main"] == [4_930, 5_000, 1_204]
    assert first["reports"] == [1_130, 400, 0]
    store.away = "gone"
    until(lambda: watching.past()[-1] is None)
    assert watching.picture().away == "gone"
    until(lambda: len(watching.past()) == KEPT)


def test_a_store_that_hangs_is_told_as_away(
    watching: RecentLooks, store: Slow, clock: Watch
) -> None:
    """What was seen last is shown, with how old it is; the page waits for nothing."""
    watching.picture()
    store.may.clear()
    asked = store.asked
    until(lambda: store.asked > asked)
    clock.at += OLD + 1.0
    picture = watching.picture()
    assert (picture.away, picture.since) == ("it does not answer", OLD + 1.0)
    assert picture.held == 1204
    store.may.set()
    until(lambda: not watching.picture().away)


def test_a_store_that_never_answers_is_told_too(
    watching: RecentLooks, store: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bounded time."""
    monkeypatch.setattr(module, "FIRST", 0.05)
    store.may.clear()
    picture = watching.picture()
    assert picture.away == "it was asked and has not answered yet"
    assert picture.databases == ()


def test_nobody_is_asked_for_nobody(
    watching: RecentLooks, store: Slow, clock: Watch
) -> None:
    """Ten minutes after the last who looked; the next wakes it again."""
    watching.picture()
    clock.at += IDLE + 1.0
    until(lambda: watching._loop is None or watching._loop.stopping)
    until(lambda: store.closed)
    assert store.opened == 1
    watching._past.append(None)
    watching.picture()
    assert store.opened == 2
    until(watching.past)
    assert None not in watching.past(), "what was long ago is not as if just now"
    assert not watching.picture().away


def test_a_look_that_fails_is_logged_once_and_ends_no_thread(
    watching: RecentLooks,
    store: Slow,
    clock: Watch,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The page shows that the picture is old, until a look succeeds."""
    failed: list[int] = []

    def fail() -> Mapping[str, View]:
        failed.append(1)
        raise ZeroDivisionError

    watching.picture()
    with monkeypatch.context() as broken:
        broken.setattr(store, "look", fail)
        until(lambda: len(failed) > 3)
        clock.at += OLD + 1.0
        assert watching.picture().away == "it does not answer"
    until(lambda: not watching.picture().away)
    assert store.opened == 1
    assert len([one for one in caplog.records if "ZeroDivision" in one.message]) == 1


def test_wrong_settings_are_told_to_who_asks() -> None:
    """By the page, not by a thread that nobody reads."""
    watching = RecentLooks(replace(SETTINGS, redis_url=None))
    with pytest.raises(Misconfigured, match="throttle_redis_url"):
        watching.picture()
