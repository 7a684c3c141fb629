"""The rights that the documentation names are enough, and each of them is needed."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Queue
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from celery import Celery

from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.migrations import migrate
from celery_pecker.kernel.schema_check import check_schema
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox import Outbox
from celery_pecker.outbox.runs.service import RunService
from celery_pecker.schedules import Schedules
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.schedules.local.outbox_runner import OutboxRunner
from celery_pecker.schedules.replica.alarms import Alarms
from celery_pecker.surfaces.findings.postgres import NEEDED
from celery_pecker.testing import eventually
from celery_pecker.testing.manual import ManualPecker
from celery_sharding.ledger import at
from celery_sharding.runner.shard_worker import ShardWorker
from celery_sharding.worker.step import Presence
from tests.docs.pages import ROOT, steps
from tests.docs.test_code_blocks import remove
from tests.integration.surroundings.whole import stand

PAGE = ROOT / "docs/how-to/rights-and-migrations.md"
SCHEMA = "pecker"
ALL = (
    "pecker_scheduler",
    "pecker_worker",
    "pecker_observe",
    "pecker_web",
    "pecker_reader",
)
KINDS = "select count(*) from pecker.pecker_observer_kinds"
NAMES = re.compile(rf"\b({'|'.join(ALL)})\b")


@dataclass(frozen=True)
class Roles:
    """The roles of the page, under names of this test's own."""

    dsn: str
    suffix: str

    def of(self, name: str) -> str:
        """Return the name that a role of the page has here."""
        return f"{name}_{self.suffix}"

    def dsn_of(self, name: str) -> str:
        """Return the address, entered with no more rights than a role has."""
        return as_role(self.dsn, self.of(name))

    def sql(self, text: str) -> None:
        """Run statements of the page or of the test, as the owner of the tables."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(NAMES.sub(lambda name: self.of(name[0]), text).encode())


@pytest.fixture
def roles(empty_dsn: str) -> Iterator[Roles]:
    """Give roles with exactly the rights of the page."""
    made = Roles(empty_dsn, secrets.token_hex(6))
    migrate(empty_dsn, schema=SCHEMA)
    for step in steps(PAGE.read_text()):
        if "create role" in step.text:
            made.sql(step.text)
    yield made
    for name in ALL:
        remove(made.of(name), empty_dsn)


@pytest.fixture
def role(roles: Roles) -> str:
    """Give the role of a scheduler."""
    return roles.of("pecker_scheduler")


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


def lacking(roles: Roles, name: str) -> set[tuple[str, str]]:
    """Return the rights of a scheduler that doctor finds lacking in a role."""
    needed = [(table, right) for table, all_ in NEEDED.items() for right in all_]
    database = Database(roles.dsn_of(name), schema=SCHEMA, timeout=10.0)
    rows = database.run(
        "examine_rights",
        schema=SCHEMA,
        tables=[table for table, _ in needed],
        privileges=[right for _, right in needed],
    )
    database.close()
    return {(table, right) for _, table, right in rows}


def test_doctor_sees_each_right_that_is_lacking(roles: Roles) -> None:
    """Of each table that there is; a scheduler of the page lacks none."""
    assert lacking(roles, "pecker_scheduler") == set()
    roles.sql(
        f"revoke all on all tables in schema {SCHEMA} from pecker_scheduler;"
        f"grant update on {SCHEMA}.pecker_tickets to pecker_scheduler"
    )
    seen = lacking(roles, "pecker_scheduler")
    with psycopg.connect(roles.dsn) as connection:
        tables = connection.execute(
            "select tablename from pg_tables where schemaname = %s", [SCHEMA]
        ).fetchall()
    assert {table for table, _ in seen} == {table for (table,) in tables}
    rights = {right for table, right in seen if table == "pecker_tickets"}
    assert rights == {"select", "insert", "delete"}


def test_a_worker_without_rights_says_so_once(
    roles: Roles, caplog: pytest.LogCaptureFixture
) -> None:
    """In a line that says what to do; not with a traceback at each heartbeat."""
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn=roles.dsn_of("pecker_observe"), pecker_schema=SCHEMA)
    worker = SimpleNamespace(app=app, pool=None, concurrency=2)
    presence = Presence(worker, ShardWorker("w1@test", "threads"))
    ledger = at(app)
    for _ in range(3):
        presence._report(ledger, presence._seen)
    ledger.close()
    [line] = [one for one in caplog.records if one.levelname != "DEBUG"]
    assert "permission denied for table pecker_executors" in line.getMessage()
    assert "docs/how-to/rights-and-migrations.md" in line.getMessage()
    assert line.exc_info is None


def test_alarms_without_rights_say_so(
    roles: Roles, caplog: pytest.LogCaptureFixture
) -> None:
    """They end, and the scheduler beside them goes on: nothing else would tell."""
    roles.sql("revoke insert on pecker.pecker_alarm_rules from pecker_scheduler")
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(
        pecker_dsn=roles.dsn_of("pecker_scheduler"),
        pecker_schema=SCHEMA,
        pecker_alarms={"silent": {}},
    )
    settings = Settings.read(app.conf, main="proj")
    none: Any = SimpleNamespace(schedule={})
    alarms = Alarms(app, none, settings, kind="beat")
    alarms.start()
    said = "no alarm rings from this process: the role of pecker_dsn may not run"
    eventually(lambda: said in caplog.text, 30.0, "it is said")
    alarms.stop()
    assert alarms.join(30.0)


def test_a_worker_runs_recorded_tasks_once_it_has_the_right(
    roles: Roles, caplog: pytest.LogCaptureFixture
) -> None:
    """It says what is missing; nobody has to start it again after the grant."""
    read = "select on pecker.pecker_outbox_load"
    roles.sql(f"revoke {read} from pecker_worker")
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn=roles.dsn_of("pecker_worker"), pecker_schema=SCHEMA)
    run: Queue[str] = Queue()

    @app.task(name="note", shared=False)
    def note(text: str) -> None:
        run.put(text)

    Outbox(app).send(note.s("done"), mode="local")
    settings = Settings.read(app.conf, main="proj")
    runner = OutboxRunner(app, RunService(settings), settings)
    runner.start()
    said = "permission denied for table pecker_outbox_load"
    eventually(lambda: said in caplog.text, 30.0, "it is said")
    roles.sql(f"grant {read} to pecker_worker")
    assert run.get(timeout=60.0) == "done"
    runner.stop()
    assert runner.join(30.0)


@pytest.mark.cluster
@pytest.mark.slow
def test_each_kind_of_process_runs_under_its_documented_rights(
    roles: Roles, redis_url: str, queue_name: str
) -> None:
    """A scheduler, a worker, a host of observers and a caller do all that there is."""
    roles.sql("grant create on schema public to pecker_web")
    conf = {"pecker_schema": SCHEMA, "pecker_worker": []}
    web = roles.dsn_of("pecker_web")
    with stand(web, redis_url, queue_name, **conf) as made:
        roles.sql(f"grant all on notes to {', '.join(ALL)}")
        as_beat = {"pecker_dsn": roles.dsn_of("pecker_scheduler")}
        made.process("beat", "-S", "pecker", "--pidfile=", "-l", "INFO", **as_beat)
        made.worker(pecker_dsn=roles.dsn_of("pecker_worker"))
        made.process("pecker", "observe", pecker_dsn=roles.dsn_of("pecker_observe"))
        with psycopg.connect(roles.dsn) as connection:
            made.until(lambda: connection.execute(KINDS).fetchone() == (1,), "a host")
        made.begin(0)
        made.ends(0)
        made.stop(0)
        edit(made.whole.app)
        for process in made.workers:
            assert "permission denied" not in process.life_log(), process.life_log()


def edit(app: Celery) -> None:
    """Edit a stored schedule in each way, and ask for a run of it."""
    schedules = Schedules(app)
    schedules.set("report", task="whole.tick", schedule=3600, by="ann")
    schedules.change("report", name="report", task="whole.tick", schedule=60)
    schedules.rename("report", "monthly")
    schedules.pause("monthly")
    schedules.resume("monthly")
    assert [one.name for one in schedules.list()] == ["monthly"]
    assert schedules.history("monthly")
    schedules.remove("monthly")
    schedules.close()
