"""A key is of a row that waits: who takes the row frees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from celery import Celery

from celery_pecker.kernel.clock import new_id
from celery_pecker.outbox import Outbox
from tests.integration.outbox_relay.conftest import Relays
from tests.integration.outbox_relay.rows import column, record

KEYS = "select id from pecker_outbox where dedupe_key is not null"


@pytest.fixture
def sender(dsn: str) -> Iterator[Outbox]:
    """Give an outbox whose broker is away."""
    app = Celery("keys", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.pecker_dsn = dsn
    made = Outbox(app)
    yield made
    made.close()


def send(
    outbox: Outbox, connection: psycopg.Connection[Any] | None = None, **options: Any
) -> str:
    """Record a message with the key `k`; return the id of its task."""
    signature = outbox.app.signature("note", app=outbox.app)
    return str(
        outbox.send(signature, connection=connection, dedupe_key="k", **options).id
    )


def test_a_row_that_was_taken_has_no_key_any_more(
    relays: Relays, outbox: psycopg.Connection[Any], sender: Outbox
) -> None:
    """It may run before the next caller's data can be seen: a new one is recorded."""
    first = send(sender)
    assert send(sender) == first
    claim = relays().claim(new_id(), above=0)
    assert claim.batch is not None
    second = send(sender)
    assert second != first
    assert column(outbox, "select task_id from pecker_outbox order by id") == [
        first,
        second,
    ]


def test_a_row_that_a_caller_holds_is_taken_when_the_caller_has_ended(
    dsn: str, relays: Relays, outbox: psycopg.Connection[Any], sender: Outbox
) -> None:
    """And the walk of ids does not leave it behind."""
    before = record(outbox, 2)
    first = send(sender)
    after = record(outbox, 2)
    relay = relays()
    with psycopg.connect(dsn) as caller:
        assert send(sender, caller) == first
        claim = relay.claim(new_id(), above=0)
        assert claim.batch is not None
        assert claim.batch.ids == before + after
        held = column(outbox, KEYS)
        assert claim.last == held[0] - 1
    late = relay.claim(new_id(), above=held[0] - 1)
    assert late.batch is not None
    assert late.batch.ids == held
    assert column(outbox, KEYS) == []


def test_a_row_that_a_caller_holds_alone_is_no_batch(
    dsn: str, relays: Relays, outbox: psycopg.Connection[Any], sender: Outbox
) -> None:
    """Nothing else is due: nothing is claimed."""
    send(sender)
    with psycopg.connect(dsn) as caller:
        send(sender, caller)
        claim = relays().claim(new_id(), above=0)
    assert claim.batch is None
    assert claim.had_turn
    assert column(outbox, "select 1 from pecker_outbox_batches") == []


def test_a_deferred_row_keeps_its_key_until_it_is_taken(
    relays: Relays, outbox: psycopg.Connection[Any], sender: Outbox
) -> None:
    """It waits for its time, and those of its key with it."""
    first = send(sender, countdown=60)
    assert relays().claim(new_id(), above=0).batch is None
    assert send(sender) == first
    outbox.execute("update pecker_outbox set due_at = now() - interval '1 second'")
    assert relays().claim(new_id(), above=0).batch is not None
    assert send(sender) != first
