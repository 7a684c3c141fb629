"""A ledger on a database of the test's own, and jobs in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

import pytest

from celery_pecker.kernel.clock import SYSTEM, new_tag
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings
from celery_sharding.codec import encode_items
from celery_sharding.ledger import PACKAGE, Ledger
from celery_sharding.ledger.submissions import NewJob
from celery_sharding.model import Options, Planned

LEASE = 15.0


class Time:
    """What ledgers take for the time: it stands until it is stepped."""

    def __init__(self) -> None:
        self.at: datetime | None = SYSTEM.now()
        """None: the database's clock."""

    def __call__(self) -> datetime | None:
        """Return it."""
        return self.at

    def step(self, seconds: float) -> None:
        """It is that much later, or earlier."""
        self.at = (self.at or SYSTEM.now()) + timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A job that was planned: its shards are numbered from 0."""

    job: int
    task_id: str
    layers: int
    shards: int
    items: int
    """In all."""


Planner = Callable[..., Ready]


@pytest.fixture
def settings(dsn: str) -> Settings:
    """Give the kernel's settings for this test's database."""
    return Settings(dsn=dsn, app="test")


@pytest.fixture
def time() -> Time:
    """Give the time of `ledger` and of those that `open_ledger` makes."""
    return Time()


@pytest.fixture
def open_ledger(settings: Settings, time: Time) -> Iterator[Callable[[], Ledger]]:
    """Give a function that opens a further ledger: another connection, another life."""
    with ExitStack() as stack:

        def opened() -> Ledger:
            database = Database.of(settings, role="test", package=PACKAGE, now=time)
            ledger = Ledger(database)
            stack.callback(ledger.close)
            return ledger

        yield opened


@pytest.fixture
def ledger(open_ledger: Callable[[], Ledger]) -> Ledger:
    """Give a ledger on this test's own database."""
    return open_ledger()


@pytest.fixture
def submitted(ledger: Ledger) -> Callable[..., str]:
    """Give a function that submits a job, and returns its task id.

    ``key`` and ``task`` are those of the job, ``args`` and ``kwargs`` of the call; all
    else are fields of Options.
    """

    def submit(
        *,
        key: str | None = None,
        task: str = "proj.import_rows",
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] = MappingProxyType({}),
        **options: object,
    ) -> str:
        new = NewJob(
            task_id=new_tag(),
            task=task,
            args=args,
            kwargs=kwargs,
            continuation={},
            options=Options(**options),  # type: ignore[arg-type]  # a test's own
            key=key,
        )
        return ledger.submissions.submit(new, follow=False).task_id

    return submit


@pytest.fixture
def planned(ledger: Ledger, submitted: Callable[..., str]) -> Planner:
    """Give a function that makes a job whose plan is written: stage sharding.

    ``sizes``: the items of each shard, layer by layer; the items are the integers from
    0 on, over all shards. All else as for `submitted`.
    """

    def make(
        sizes: tuple[tuple[int, ...], ...] = ((10, 10),), **given: object
    ) -> Ready:
        task_id = submitted(**given)
        turn = ledger.plans.begin(task_id, "planner:1:a", LEASE)
        assert turn is not None
        shards, first = [], 0
        for layer, counts in enumerate(sizes):
            for count in counts:
                body = encode_items([*range(first, first + count)])
                shards.append(Planned(layer=layer, count=count, body=body))
                first += count
        written = ledger.plans.write(turn, shards)
        return Ready(
            job=turn.job,
            task_id=task_id,
            layers=written.layers,
            shards=written.shards,
            items=written.total,
        )

    return make
