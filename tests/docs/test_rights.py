"""The rights that the documentation names are enough, and each of them is needed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest
from celery import Celery

from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.migrations import migrate
from celery_pecker.kernel.schema_check import check_schema
from celery_pecker.schedules.repository import Repository
from celery_pecker.testing.manual import ManualPecker
from tests.docs.pages import ROOT, steps
from tests.docs.test_code_blocks import remove

PAGE = ROOT / "docs/how-to/rights-and-migrations.md"
SCHEMA = "pecker"


@pytest.fixture
def role(empty_dsn: str) -> Iterator[str]:
    """Give a role with exactly the rights of the page."""
    name = f"pecker_test_{secrets.token_hex(6)}"
    migrate(empty_dsn, schema=SCHEMA)
    [grants] = [
        step.text
        for step in steps(PAGE.read_text())
        if "create role pecker_scheduler" in step.text
    ]
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(grants.replace("pecker_scheduler", name).encode())
    yield name
    remove(name, empty_dsn)


def as_role(dsn: str, role: str) -> str:
    """Return the address, entered with no more rights than the role has."""
    return f"{dsn}{'&' if '?' in dsn else '?'}options={quote(f'-crole={role}')}"


def test_a_scheduler_runs_under_the_documented_rights(
    empty_dsn: str, role: str
) -> None:
    """It starts, claims, confirms, counts, declares, and forgets after a day."""
    app = Celery("proj")
    app.conf.beat_schedule = {
        "quick": {"task": "proj.tick", "schedule": 1.0},
        "hourly": {"task": "proj.tick", "schedule": 3600.0},
    }
    dsn = as_role(empty_dsn, role)
    database = Database(dsn, schema=SCHEMA, timeout=10.0)
    check_schema(database, app="proj")
    database.close()
    with ManualPecker(app, dsn=dsn, schema=SCHEMA) as pecker:
        assert {run.name for run in pecker.pass_time(3600)} == {"quick", "hourly"}
        pecker.clock.advance_us(2 * 86_400 * 1_000_000)
        assert pecker.pass_time(10)


def test_without_a_right_the_refusal_names_it(empty_dsn: str, role: str) -> None:
    """What the role may not do, and what it needs."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        revoked = f"revoke insert on {SCHEMA}.pecker_tasks from {role}"
        connection.execute(revoked.encode())
    database = Database(as_role(empty_dsn, role), schema=SCHEMA, timeout=10.0)
    with pytest.raises(Misconfigured, match=r"enroll .*select, insert, update"):
        Repository(database, new_id()).enroll(["quick"])
    database.close()
