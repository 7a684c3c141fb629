"""Who delivers very many makes room for those that follow."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.database import Database
from celery_pecker.outbox.relay import vacuum as vacuum_policy
from celery_pecker.outbox.relay.vacuum import INTERVAL, Vacuum
from celery_pecker.testing import eventually
from tests.integration.outbox_relay.rows import column, record

DEAD = "select n_dead_tup from pg_stat_user_tables where relname = 'pecker_outbox'"
VACUUMED = DEAD.replace("n_dead_tup", "vacuum_count")


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum_policy, "LEAST_DEAD", 400)


@contextmanager
def made(dsn: str, delivered: Iterator[int]) -> Iterator[Vacuum]:
    """Give what vacuums for a relay that delivers so many."""
    database = Database(dsn, schema="public", timeout=30.0)
    yield Vacuum(database, lambda: next(delivered), clock=SYSTEM)
    assert not database.connected, "it has a connection only while it is at work"


def die(outbox: psycopg.Connection[Any]) -> None:
    """Leave 500 dead rows, and wait until PostgreSQL has counted them."""
    outbox.execute("alter table pecker_outbox set (autovacuum_enabled = off)")
    record(outbox, 500)
    outbox.execute("delete from pecker_outbox")
    eventually(lambda: column(outbox, DEAD) == [500], 30.0, "they are counted")


def test_room_is_made_when_many_are_dead(
    dsn: str, outbox: psycopg.Connection[Any]
) -> None:
    """Not before: a look is a look."""
    with made(dsn, count(0, vacuum_policy.LOOK_EVERY)) as vacuum:
        assert vacuum.step() == INTERVAL
        vacuum.step()
        assert column(outbox, VACUUMED) == [0]
        die(outbox)
        vacuum.step()
    eventually(lambda: column(outbox, VACUUMED) == [1], 30.0, "it was vacuumed")
    eventually(lambda: column(outbox, DEAD) == [0], 30.0, "none is dead")


def test_two_at_once_do_not_wait_for_each_other(
    dsn: str, outbox: psycopg.Connection[Any]
) -> None:
    """Who comes second does nothing."""
    die(outbox)
    with psycopg.connect(dsn) as other, made(dsn, count(10**6, 10**6)) as vacuum:
        other.execute("lock table pecker_outbox in share update exclusive mode")
        vacuum.step()
    assert column(outbox, VACUUMED) == [0]


def test_a_role_that_may_not_is_named_once(
    dsn: str, outbox: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """And what to do about it."""
    role = f"pecker_test_{secrets.token_hex(6)}"
    named = sql.Identifier(role)
    asked = sql.SQL("create role {} login password {}")
    outbox.execute(asked.format(named, outbox.info.password))
    try:
        die(outbox)
        with (
            caplog.at_level(logging.WARNING, "celery_pecker.outbox"),
            made(make_conninfo(dsn, user=role), count(10**6, 10**6)) as vacuum,
        ):
            vacuum.step()
            vacuum.step()
        [line] = caplog.messages
        assert "outbox default: 500 rows of pecker_outbox are dead" in line
        assert "may not VACUUM it" in line
        assert column(outbox, VACUUMED) == [0]
    finally:
        outbox.execute(sql.SQL("drop role {}").format(named))
