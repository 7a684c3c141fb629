"""Runners that are stopped again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery

from tests.integration.local.hand import Gates, Hand, Make


@pytest.fixture
def app() -> Celery:
    """Give an app whose broker nobody may need."""
    return Celery("proj", broker="redis://127.0.0.1:1/0", set_as_current=False)


@pytest.fixture
def gates() -> Iterator[Gates]:
    """Give gates that are open at the end."""
    made = Gates()
    yield made
    made.go.set()


@pytest.fixture
def hand(gates: Gates) -> Iterator[Make]:
    """Give a function that makes a runner."""
    made: list[Hand] = []

    def make(app: Celery, **given: object) -> Hand:
        made.append(Hand(app, **given))  # type: ignore[arg-type]  # handed on
        return made[-1]

    yield make
    gates.go.set()
    for one in made:
        one.runner.stop()
        assert one.runner.join(30.0)
