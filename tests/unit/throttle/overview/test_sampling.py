"""One look after the other: rates, and what is told while the store is away."""

from __future__ import annotations

import pytest

from tests.unit.throttle.incident import SETTINGS, Night, holder, seen
from throttle.errors import StoreUnavailable, TokenRefused
from throttle.model import View
from throttle.overview import Picture, Sampler


class Watch:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        """Return what it shows."""
        return self.at


@pytest.fixture
def night() -> Night:
    """Give the store."""
    return Night()


@pytest.fixture
def clock() -> Watch:
    """Give the clock."""
    return Watch()


@pytest.fixture
def sampler(night: Night, clock: Watch) -> Sampler:
    """Give who looks."""
    return Sampler(night, SETTINGS, clock=clock, now=lambda: 1_000.0)


def rate(picture: Picture, database: str) -> float | None:
    """Return what a database admits per second."""
    return next(one.rate for one in picture.databases if one.name == database)


def test_rates_need_two_looks(sampler: Sampler, night: Night, clock: Watch) -> None:
    """They are told over at least a second: workers speak each 100 ms."""
    assert rate(sampler.sample(), "main") is None
    clock.at += 0.5
    night.second = 1
    assert rate(sampler.sample(), "main") is None
    clock.at += 1.5
    night.second = 2
    main = next(one for one in sampler.sample().databases if one.name == "main")
    assert main.rate == 4 * 205
    assert [one.rate for one in main.tenants] == [400.0, 220.0, 200.0]
    clock.at += 0.5
    assert rate(sampler.sample(), "main") == 4 * 205, "the last is told on"


def test_a_worker_that_comes_or_starts_anew_is_no_rush(
    sampler: Sampler, night: Night, clock: Watch
) -> None:
    """Its count begins at nothing, or is there at once; neither is a rate."""
    counts = [{"a": 500, "b": 900}, {"a": 510, "b": 3, "new": 70_000}]
    rates = []
    for admitted in counts:
        night.known = {
            "main": View(
                seen=seen(0.0),
                holders={
                    key: holder(key, 0.5, 5000.0, admitted=count)
                    for key, count in admitted.items()
                },
            )
        }
        rates.append(rate(sampler.sample(), "main"))
        clock.at += 2.0
    assert rates == [None, 5.0]


def test_while_the_store_is_away_the_last_picture_is_told_with_why(
    sampler: Sampler, night: Night, clock: Watch
) -> None:
    """And since when; nobody takes it for what is now."""
    before = sampler.sample()
    assert sampler.answered
    night.away = "Redis is away"
    clock.at += 4.0
    away = sampler.sample()
    assert (away.away, away.since) == ("Redis is away", 4.0)
    assert away.databases == before.databases
    assert isinstance(sampler.failure, StoreUnavailable)
    night.away = ""
    assert sampler.sample().away == ""
    assert sampler.failure is None


def test_a_store_that_never_answered_shows_the_limits(
    sampler: Sampler, night: Night, clock: Watch
) -> None:
    """Nothing else is known, and it is said since when one asks."""
    night.away = "Redis is away"
    sampler.sample()
    clock.at += 3.0
    picture = sampler.sample()
    assert picture.since == 3.0
    assert {one.name for one in picture.databases} == set(SETTINGS.limits)
    assert not sampler.answered


def test_no_rate_is_taken_over_an_outage(
    sampler: Sampler, night: Night, clock: Watch
) -> None:
    """A minute's tasks are not those of the second after it."""
    sampler.sample()
    clock.at += 1.0
    night.away = "Redis is away"
    sampler.sample()
    clock.at += 60.0
    night.away, night.second = "", 60
    assert rate(sampler.sample(), "main") is None


def test_a_token_that_is_refused_is_told_too(
    sampler: Sampler, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever watches is not ended by it: somebody may mend it."""

    def refuse() -> None:
        message = "the token was refused"
        raise TokenRefused(message)

    monkeypatch.setattr(night, "look", refuse)
    assert sampler.sample().away == "the token was refused"
    assert isinstance(sampler.failure, TokenRefused)
