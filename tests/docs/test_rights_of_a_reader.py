"""Who only looks: what reads works under the page's role, what acts is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from celery_pecker.surfaces.cli import pecker
from celery_sharding import Sharding
from celery_sharding.cli import sharding
from tests.command_line import Line, lines
from tests.docs.test_rights import SCHEMA, Roles, roles
from tests.integration.cli.test_audit import ACTING, JOBS
from tests.integration.flower.conftest import start  # noqa: F401  # a fixture
from tests.integration.flower.outbox_rows import ANYBODY
from tests.integration.flower.site import Site
from tests.integration.outbox_relay.rows import record

__all__ = ["roles"]
READING = (
    ("tasks",),
    ("next", "tick"),
    ("explain", "tick"),
    ("health", "--pace", "--runs"),
    ("schedules",),
    ("outbox",),
    ("observers",),
    ("alarms",),
    ("audit",),
    ("export",),
    ("doctor",),
    ("now", "--json"),
)
OF_JOBS = (("list",), ("show", "job"), ("errors", "job"), ("watch", "job"))
PAGE = "docs/how-to/rights-and-migrations.md"


@pytest.fixture
def reader(roles: Roles) -> str:
    """Give the address of tables with rows, entered as who only looks."""
    roles.sql(
        "set search_path to pecker;"
        "insert into pecker_owner (app) values ('proj');"
        "insert into pecker_tasks (name, executed_at) values ('tick', now())"
    )
    with psycopg.connect(roles.dsn, options=f"-c search_path={SCHEMA}") as connection:
        record(connection, 3)
    return roles.dsn_of("pecker_reader")


@pytest.fixture(params=["pecker", "sharding"])
def make_line(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any, Any]]:
    """Give a command group with what reads in it, and what acts."""
    group, reading, acting = {
        "pecker": (pecker, READING, ACTING),
        "sharding": (sharding, OF_JOBS, JOBS),
    }[request.param]
    beat = {"tick": {"task": "proj.tick", "schedule": 1.0}}
    with lines(group, pecker_schema=SCHEMA, beat_schedule=beat) as make:
        yield make, reading, acting


def test_a_reader_is_shown_everything_and_changes_nothing(
    reader: str, make_line: tuple[Callable[..., Line], Any, Any]
) -> None:
    """Each refusal is one sentence that names the page; nothing was written."""
    make, reading, acting = make_line
    line = make(reader)
    Sharding(line.app)
    for words in reading:
        done = line(*words)
        assert "may not" not in done.output, (words, done.output)
        assert "permission" not in done.output, (words, done.output)
    for words in acting:
        done = line(*words)
        assert done.exit_code == 1, words
        assert len(done.stderr.splitlines()) == 1, (words, done.stderr)
        assert PAGE in done.stderr, (words, done.stderr)


def test_doctor_does_not_blame_a_role_that_only_reads(
    reader: str, roles: Roles
) -> None:
    """It lacks nothing that it needs; one that lacks some rights does."""
    with lines(pecker, pecker_schema=SCHEMA) as make:
        [finding] = rights(make(reader))
        assert finding["grade"] == "ok"
        assert "changes nothing" in finding["text"]
        roles.sql("grant update on pecker.pecker_tasks to pecker_reader")
        [finding] = rights(make(reader))
        assert finding["grade"] == "fail"


@pytest.mark.slow
def test_flower_under_a_reader_shows_its_pages_and_refuses_what_acts(
    reader: str,
    start: Callable[..., Site],  # noqa: F811  # the fixture
) -> None:
    """Each page has its rows; a button answers with the sentence."""
    site = start(reader, env=ANYBODY, more=f"app.conf.pecker_schema = {SCHEMA!r}\n")
    for page in ("/schedules", "/now", "/outbox", "/observers", "/alarms", "/sharding"):
        assert site.get(page).status_code == 200, page
        assert "permission" not in json.dumps(site.data(page)), page
    assert "tick" in json.dumps(site.data("/schedules"))
    refused = site.post("/schedules/act", act="pause", name="tick")
    assert refused.status_code >= 400
    assert PAGE in refused.text


def rights(line: Line) -> list[dict[str, Any]]:
    """Return what doctor finds of the rights of the role."""
    found = json.loads(line("doctor", "--json").stdout)["findings"]
    return [one for one in found if one["check"] == "rights"]
