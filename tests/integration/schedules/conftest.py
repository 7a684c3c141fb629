"""Replicas on one database, turned by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest
from celery import Celery

from celery_pecker.testing.manual import ManualClock, ManualPecker
from tests.integration.schedules.replicas import every


class Starter(Protocol):
    """Makes replicas."""

    def __call__(
        self,
        schedule: dict[str, object],
        clock: ManualClock | None = None,
        **more: object,
    ) -> ManualPecker:
        """Return a replica of an app with that schedule."""
        ...


@pytest.fixture
def start(dsn: str) -> Iterator[Starter]:
    """Give a way to start replicas on one database."""
    with ExitStack() as stack:

        def make(
            schedule: dict[str, object],
            clock: ManualClock | None = None,
            **more: object,
        ) -> ManualPecker:
            app = Celery("test", set_as_current=False)
            app.conf.beat_schedule = {
                name: given if isinstance(given, dict) else every(given)
                for name, given in schedule.items()
            }
            return stack.enter_context(
                ManualPecker(app, dsn=dsn, clock=clock, **more)  # type: ignore[arg-type]
            )

        yield make
