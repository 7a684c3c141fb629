"""`manage.py migrate` takes the steps of our tables, and only where they belong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.migrations import LATEST
from celery_pecker.kernel.sql import migrations
from tests.integration.django import __name__ as here
from tests.integration.django.conftest import Site
from tests.services import PostgresStand

ALL = [step.version for step in migrations()]
OUTBOX = ("migrate", "--database", "outbox")
OTHER = f"{here}.project:other"


@pytest.fixture(scope="module")
def bare(postgres_server: PostgresStand, start: Callable[..., Site]) -> Iterator[Site]:
    """Give a Django over a database that has no table."""
    with postgres_server.fresh(migrated=False) as dsn:
        yield start(dsn, PROJECT_PECKER_DSN=dsn)


@pytest.fixture
def site(bare: Site) -> Iterator[Site]:
    """Give the Django; no table is there before a test."""
    yield bare
    with psycopg.connect(bare.dsn) as connection:
        connection.execute("drop schema public cascade; create schema public")


def steps(site: Site) -> list[int]:
    """Return the steps that the database has."""
    with psycopg.connect(site.dsn) as connection:
        there = connection.execute("select to_regclass('pecker_migrations')").fetchone()
        if there == (None,):
            return []
        rows = connection.execute("select version from pecker_migrations order by 1")
        return [version for (version,) in rows]


def test_migrate_makes_the_tables_and_says_so(site: Site) -> None:
    """One command; a second one finds nothing to do."""
    assert site.command("migrate") == 0
    assert steps(site) == [], "not with another database"
    answer = site.run(*OUTBOX)
    assert answer["status"] == 0
    assert f"Applying celery_pecker step {LATEST:04}" in answer["out"]
    assert steps(site) == ALL
    assert "celery_pecker step" not in site.run(*OUTBOX)["out"]


def test_nothing_is_reversed(site: Site) -> None:
    """The line goes forward only."""
    assert site.command(*OUTBOX) == 0
    answer = site.run(*OUTBOX, "celery_pecker", "zero")
    assert answer["status"] == 1
    assert "does not have migrations" in answer["out"]
    assert steps(site) == ALL


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"PECKER_ADMIN_APP": OTHER}, "pecker_dsn names another database"),
        ({"PECKER_ADMIN_APP": "nowhere:app"}, "PECKER_ADMIN_APP is 'nowhere:app'"),
        ({"PECKER_ADMIN_SCHEMA": "other"}, "pecker_schema is 'public'"),
        ({"DATABASE_ROUTERS": [f"{here}.project.Forbids"]}, None),
        ({"PECKER_ADMIN_MIGRATE": False}, None),
        ({"PECKER_ADMIN_DATABASE": "default"}, None),
    ],
)
def test_migrate_leaves_the_tables_alone(
    site: Site, settings: dict[str, Any], words: str | None
) -> None:
    """Where it cannot know that they belong there, or was forbidden."""
    answer = site.run(*OUTBOX, **settings)
    assert answer["status"] == 0
    assert (words or "") in answer["out"]
    assert ("left alone" in answer["out"]) is (words is not None)
    assert steps(site) == []


def test_migrate_takes_the_steps_of_a_database_that_has_another_name(
    site: Site,
) -> None:
    """`pecker_dsn` may lead through a pooler: then the setting says that it is it."""
    answer = site.run(*OUTBOX, PECKER_ADMIN_APP=OTHER, PECKER_ADMIN_MIGRATE=True)
    assert answer["status"] == 0
    assert steps(site) == ALL


def test_a_test_database_gets_the_tables_and_the_real_one_does_not(
    bare: Site, start: Callable[..., Site]
) -> None:
    """A test runner makes it from the alias: `pecker_dsn` still names the real one."""
    site = start(bare.dsn, PROJECT_PECKER_DSN=bare.dsn)
    assert site.test_database("outbox") == ALL
    assert steps(site) == []


def test_a_step_that_cannot_be_taken_ends_migrate_with_one_line(site: Site) -> None:
    """As Django's commands fail."""
    with psycopg.connect(site.dsn, autocommit=True) as connection:
        connection.execute("create table pecker_tasks (wrong integer)")
    answer = site.run(*OUTBOX)
    assert answer["status"] == 1
    assert 'relation "pecker_tasks" already exists' in answer["out"]
    assert "\n" not in answer["out"].strip()


def test_a_wrong_switch_names_what_is_allowed(site: Site) -> None:
    """A text is no switch."""
    answer = site.run(*OUTBOX, PECKER_ADMIN_MIGRATE="no")
    assert answer["status"] == 1
    assert "PECKER_ADMIN_MIGRATE must be True, False or None, not 'no'" in answer["out"]
