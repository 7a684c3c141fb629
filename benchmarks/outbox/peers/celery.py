"""Celery's own sending: nothing is recorded, and no transaction is joined."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from benchmarks.outbox.field import build
from benchmarks.peers.environment import given

TABLE = ""


def install() -> None:
    """Nothing."""


@contextmanager
def sender() -> Iterator[
    tuple[Callable[[int], object], Callable[[], AbstractContextManager[object]]]
]:
    """Give a call."""
    app, _, task = build(given("BROKER"), given("DSN"), given("SCHEMA"), given("QUEUE"))
    yield task.delay, nullcontext
    app.close()


def consume() -> None:
    """Nothing: it is sent."""
