"""The outbox as a user writes it: read by mypy, run by nobody.

A line that must not type-check carries an ignore, which mypy reports as unused on the
day when it does.
"""

from __future__ import annotations

from typing import Any, assert_type

import psycopg
from celery import Celery, chain
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from celery_pecker.kernel.errors import (
    MessageTooLarge,
    NoTransaction,
    NotRecorded,
    PeckerError,
    TransactionAborted,
)
from celery_pecker.outbox import Mode, Outbox, outboxes

app = Celery("proj")
outbox = Outbox(app)
eu = Outbox(app, dsn="postgresql://eu/app", schema="mine", name="eu", alias="eu")
assert_type(outboxes(app), list[Outbox])


@app.task
def confirm(order: int) -> str:
    """Confirm an order."""
    return f"{order}"


@app.task(outbox="until_done")
def bill(order: int) -> None:
    """Bill an order."""


def send(connection: psycopg.Connection[Any], session: Session) -> None:
    """Send in each way that blocks."""
    outbox.send(confirm.s(1), connection=connection, priority=3)
    outbox.send(confirm.s(1), connection=session, dedupe_key="1", mode="local")
    outbox.send(chain(confirm.s(1), bill.si(1)), mode=Mode.UNTIL_DONE)
    outbox.send(confirm.s(1), connection, "1")  # type: ignore[call-arg]
    outbox.send(confirm.s(1), dedupe_key=5)  # type: ignore[arg-type]
    assert_type(outbox.send_many(confirm, [(1,), {"order": 2}]), list[Any])
    with outbox.using(session) as nothing:
        assert_type(nothing, None)
        bill.delay(1)


async def asend(session: AsyncSession) -> None:
    """Send in each way that is awaited."""
    await outbox.asend(confirm.s(1), connection=session, countdown=5)
    assert_type(await outbox.asend_many(confirm, ((n,) for n in range(3))), list[Any])
    async with outbox.using(session):
        bill.delay(1)


def refused() -> tuple[type[PeckerError], ...]:
    """Name what is refused, by what to do about it."""
    nothing_written: type[NotRecorded] = NoTransaction
    return nothing_written, TransactionAborted, MessageTooLarge
