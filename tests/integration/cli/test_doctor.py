"""What doctor finds, on servers that are well and on servers that are not."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest
import redis

from celery_pecker.kernel.clock import SYSTEM, new_id
from celery_pecker.kernel.database import Database
from celery_pecker.outbox.relay.batches import Batches, RelayTally
from celery_pecker.schedules.engine.model import Delivery, Entry, Policy, RunMode
from celery_pecker.surfaces.findings import broker, judge, packages
from celery_pecker.surfaces.findings.model import Finding
from celery_pecker.testing import EmbeddedRedis, free_port
from tests.command_line import Line
from tests.integration.outbox_relay.rows import record
from tests.integration.test_migrations import run
from tests.proxy import Proxy

SECOND = 1_000_000


def grades(line: Line, code: int = 0) -> dict[str, tuple[str, str]]:
    """Return grade and text by check."""
    found = line.json("doctor", code=code)["findings"]
    assert all(one["advice"] for one in found if one["grade"] != "ok")
    return {one["check"]: (one["grade"], one["text"]) for one in found}


def test_all_is_well_on_servers_that_are(
    dsn: str, redis_url: str, make_line: Callable[..., Line]
) -> None:
    """Only the want of schedulers and workers is worth a look.

    No scheduler is a failure once something is scheduled.
    """
    line = make_line(dsn, broker_url=redis_url)
    assert grades(line, code=1)["schedulers"][0] == "fail"
    idle = make_line(dsn, broker_url=redis_url, beat_schedule={})
    found = grades(idle)
    worth = {check for check, (grade, _) in found.items() if grade != "ok"}
    assert worth == {"schedulers", "workers"}
    assert {
        "server version",
        "isolation",
        "pooler",
        "clock",
        "schema",
        "rights",
        "owner",
        "table pecker_tasks",
        "table pecker_fences",
        "held snapshots",
        "broker",
        "redis eviction",
        "redis visibility",
    } <= {*found}
    with line.replica() as one, line.replica():
        one.pass_time(2)
        assert grades(line)["schedulers"][0] == "ok"
    shown = line("doctor")
    assert "✓ isolation: read committed" in shown.stdout
    assert "  → start workers" in shown.stdout


def test_what_is_wrong_in_the_database_is_found(line: Line, dsn: str) -> None:
    """Another's schema, a missing right, autovacuum off, an index of somebody's."""
    role = f"pecker_test_{secrets.token_hex(6)}"
    run(
        dsn,
        "insert into pecker_owner (app) values ('other')",
        "alter table pecker_tasks set (autovacuum_enabled = false)",
        "create index on pecker_fences (started_at)",
        f"create role {role}",
        f"grant select on all tables in schema public to {role}",
        # One that only reads is no fault
        f"grant update on pecker_tickets to {role}",
    )
    try:
        found = grades(line, code=1)
        assert found["owner"][0] == "fail"
        assert "'other'" in found["owner"][1]
        assert found["table pecker_tasks"][0] == "fail"
        assert found["table pecker_fences"][0] == "warn"
        line.app.conf.pecker_dsn = psycopg.conninfo.make_conninfo(
            dsn, options=f"-c role={role}"
        )
        lacking = grades(line, code=1)["rights"]
        assert lacking[0] == "fail"
        assert "lacks delete, insert, update on pecker_a" in lacking[1]
        assert "pecker_tasks" in lacking[1]
        assert "pecker_migrations" not in lacking[1]
    finally:
        run(dsn, f"drop owned by {role}", f"drop role {role}")


def test_an_outbox_of_which_nothing_is_sent_is_found(line: Line, dsn: str) -> None:
    """Also while a relay is alive: what keeps it from sending may be the server."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        record(connection, 2)
        assert grades(line, code=1)["outbox default"] == (
            "ok",
            "2 due, none for longer than a minute",
        )
        connection.execute(
            "update pecker_outbox set created_at = now() - interval '2 minutes'"
        )
        grade, text = grades(line, code=1)["outbox default"]
        assert grade == "fail"
        assert "2 due, the oldest for 2 min; no relay runs" in text
        with closing(Database(dsn, schema="public", timeout=20)) as database:
            relay = Batches(database, new_id(), hold=30.0)
            relay.announce(host="h", pid=1, tally=RelayTally())
        assert (
            "the oldest for 2 min; 0.0 sent"
            in grades(line, code=1)["outbox default"][1]
        )


def test_an_old_schema_and_another_isolation_are_found(
    empty_dsn: str, make_line: Callable[..., Line]
) -> None:
    """What would end a scheduler's start is said, with all the rest."""
    dsn = psycopg.conninfo.make_conninfo(
        empty_dsn, options="-c default_transaction_isolation=serializable"
    )
    found = grades(make_line(dsn), code=1)
    assert found["isolation"][0] == "fail"
    assert found["database"][0] == "fail"
    assert "pecker migrate" in found["database"][1]
    assert found["broker"][0] == "ok"


def test_what_holds_snapshots_is_judged_once(
    dsn: str, make_line: Callable[..., Line]
) -> None:
    """With autovacuum off it was wrong and right at once."""
    off = psycopg.conninfo.make_conninfo(dsn, options="-c track_counts=off")
    document = make_line(off).json("doctor", code=1)
    judged = [one for one in document["findings"] if one["check"] == "held snapshots"]
    assert [one["grade"] for one in judged] == ["fail"]


def test_the_cause_comes_before_what_it_does(line: Line) -> None:
    """No advice locks a table that a transaction holds already."""
    with line.replica():
        checks = [one["check"] for one in line.json("doctor")["findings"]]
    assert checks.index("held snapshots") < checks.index("table pecker_tasks")
    facts = judge.Table("pecker_tasks", 9, 9, 9_000, 9, "fillfactor=35", 1)
    advice = judge.table(facts).advice or ""
    assert "full" not in advice
    assert "end what holds snapshots" in advice


def test_a_held_snapshot_is_named(line: Line, dsn: str) -> None:
    """By session, user and age; the statement shows it whatever its age."""
    with psycopg.connect(dsn) as connection:
        connection.execute("select txid_current()")
        [row] = [
            row
            for row in _snapshots(line)
            if row[0] == f"session {connection.info.backend_pid}"
        ]
        assert "idle in transaction" in row[1]
        assert row[3] > 0
        with line.replica():
            assert grades(line)["held snapshots"][0] == "ok", "it is young"
        connection.rollback()


def _snapshots(line: Line) -> Any:
    database = Database(line.app.conf.pecker_dsn, schema="public", timeout=5.0)
    found = database.run("examine_snapshots", now=None)
    database.close()
    return found


def test_a_silent_host_is_named(
    dsn: str, redis_url: str, make_line: Callable[..., Line]
) -> None:
    """The others answer, so nothing else shows it."""
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    host, port = str(given["host"]), str(given["port"])
    with Proxy(host, int(port)) as silent:
        silent.hang()
        line = make_line(
            psycopg.conninfo.make_conninfo(
                dsn, host=f"127.0.0.1,{host}", port=f"{silent.port},{port}"
            ),
            broker_url=redis_url,
        )
        found = grades(line, code=1)
    assert found[f"host 127.0.0.1 port {silent.port}"][0] == "fail"
    assert found[f"host {host} port {port}"][0] == "ok"
    assert found["isolation"][0] == "ok"


def test_a_redis_that_evicts_is_found(
    dsn: str,
    own_redis: Callable[..., EmbeddedRedis],
    make_line: Callable[..., Line],
) -> None:
    """And a visibility timeout below the longest timeout, no scripts, no writes."""
    server = own_redis(fast=True)
    client = redis.Redis.from_url(server.url)
    client.acl_setuser(
        "app",
        enabled=True,
        nopass=True,
        keys=["*"],
        channels=["*"],
        categories=["+@all", "-@scripting"],
    )
    client.config_set("maxmemory", 100_000_000)
    client.config_set("maxmemory-policy", "allkeys-lru")
    line = make_line(
        dsn,
        broker_url=server.url.replace(f":{server.password}@", "app:any@"),
        broker_transport_options={"visibility_timeout": 4},
    )
    found = grades(line, code=1)
    assert found["redis eviction"][0] == "fail"
    assert found["redis visibility"][0] == "warn"
    assert "the longest timeout is 5 s" in found["redis visibility"][1]
    assert found["redis scripts"][0] == "warn"
    assert found["redis writes"][0] == "ok"
    client.replicaof("127.0.0.1", 1)
    assert grades(line, code=1)["redis writes"][0] == "fail"
    client.close()


@pytest.mark.parametrize("way", ["hang", "refuse"])
def test_a_broker_that_gives_no_answer_is_found_in_time(
    way: str, dsn: str, redis_url: str, make_line: Callable[..., Line]
) -> None:
    """Nothing of the database is hidden by it."""
    with Proxy.before(redis_url) as proxy:
        getattr(proxy, way)()
        line = make_line(dsn, broker_url=proxy.url)
        before = SYSTEM.monotonic()
        found = grades(line, code=1)
        assert SYSTEM.monotonic() - before < 10
    assert found["broker"][0] == "fail"
    assert found["isolation"][0] == "ok"


def test_a_database_that_refuses_hides_nothing_of_the_broker(
    make_line: Callable[..., Line],
) -> None:
    """One line for the one, all checks of the other."""
    line = make_line(f"postgresql://nobody@127.0.0.1:{free_port()}/nowhere")
    found = grades(line, code=1)
    assert found["database"][0] == "fail"
    assert found["broker"][0] == "ok"


SERVER = judge.Server(
    version="16.1",
    number=160_001,
    isolation="read committed",
    standby=False,
    vacuums=True,
)
TABLE = judge.Table(
    name="pecker_tasks",
    live=10,
    dead=10,
    updated=5_000,
    hot=5_000,
    options="fillfactor=35",
    indexes=1,
)
HELD = judge.XminHolder(what="session 7", who="ann", versions=9, since_us=59 * SECOND)
TIMED = Entry(
    name="timed",
    task="t",
    described="",
    period_us=SECOND,
    policy=Policy(delivery=Delivery.AT_MOST_ONCE, timeout_us=SECOND),
)
THREADS = {"w@one": {"pool": {"implementation": "celery.concurrency.thread:TaskPool"}}}
PREFORK = {"w@one": {"pool": {"implementation": "celery.concurrency.prefork:TaskPool"}}}
JUDGED: dict[str, tuple[Callable[[], Finding], str]] = {
    "13 is too old": (
        lambda: next(judge.server(replace(SERVER, number=130_009))),
        "fail",
    ),
    "a standby": (lambda: [*judge.server(replace(SERVER, standby=True))][2], "fail"),
    "a clock near": (lambda: judge.clock(-400_000, 100, 2 * SECOND), "ok"),
    "a clock off": (lambda: judge.clock(-600_000, 100, 2 * SECOND), "warn"),
    "a clock far off": (lambda: judge.clock(3 * SECOND, 100, 2 * SECOND), "fail"),
    "a clock asked slowly": (
        lambda: judge.clock(3 * SECOND, 3 * SECOND, 2 * SECOND),
        "ok",
    ),
    "a young snapshot": (lambda: judge.snapshots([HELD], vacuums=True), "ok"),
    "an old snapshot": (
        lambda: judge.snapshots([replace(HELD, since_us=61 * SECOND)], vacuums=True),
        "warn",
    ),
    "a snapshot of hours": (
        lambda: judge.snapshots([replace(HELD, since_us=4_000 * SECOND)], vacuums=True),
        "fail",
    ),
    "a slot without an age": (
        lambda: judge.snapshots([replace(HELD, since_us=None)], vacuums=True),
        "warn",
    ),
    "no autovacuum": (lambda: judge.snapshots([], vacuums=False), "fail"),
    "a table": (lambda: judge.table(TABLE), "ok"),
    "dead rows": (lambda: judge.table(replace(TABLE, dead=60_000)), "warn"),
    "no HOT": (lambda: judge.table(replace(TABLE, hot=4_000)), "warn"),
    "no HOT yet": (lambda: judge.table(replace(TABLE, updated=900, hot=0)), "ok"),
    "no fillfactor": (lambda: judge.table(replace(TABLE, options="")), "warn"),
    "an index": (lambda: judge.table(replace(TABLE, indexes=2)), "warn"),
    "nobody's schema": (lambda: judge.owner(None, "proj"), "ok"),
    "eviction, unlimited": (
        lambda: broker.eviction({"maxmemory_policy": "allkeys-lru", "maxmemory": 0}),
        "ok",
    ),
    "eviction of what ends anyway": (
        lambda: broker.eviction({"maxmemory_policy": "volatile-lru", "maxmemory": 9}),
        "warn",
    ),
    "a short visibility, acknowledged late": (
        lambda: broker.visibility(4, 5, late=True),
        "fail",
    ),
    "threads with deadlines": (lambda: next(broker.pools(THREADS, [TIMED])), "warn"),
    "threads without": (lambda: next(broker.pools(THREADS, [])), "ok"),
    "prefork with deadlines": (lambda: next(broker.pools(PREFORK, [TIMED])), "ok"),
}


@pytest.mark.parametrize("case", JUDGED)
def test_findings_are_graded(case: str) -> None:
    """What is worth a look, and what is wrong."""
    find, grade = JUDGED[case]
    assert find().grade == grade


def test_poolers_are_told_by_who_answers() -> None:
    """Two connections of one server process, or one of two, share it."""
    assert "each connection" in judge.pooler([1, 2, 1]).text
    for shared in ([1, 1, 1], [1, 2, 2], [1, 2, 3]):
        assert "transaction or statement pooling" in judge.pooler(shared).text


def test_only_published_entries_count_for_the_visibility() -> None:
    """A local run needs no message."""
    local = replace(TIMED, policy=replace(TIMED.policy, run=RunMode.LOCAL))
    assert broker.longest([local]) == 0
    assert broker.longest([local, TIMED]) == 1


def test_a_worker_is_one_scheduler(line: Line, dsn: str) -> None:
    """Its two parts, that which sends and that which runs, are one process."""
    add = (
        "insert into pecker_replicas (holder, host, pid, version, kind, entries,"
        " started_at, seen_at) select gen_random_uuid(), 'node', 7, '1', kind, 1,"
        " clock_timestamp(), clock_timestamp() from unnest(array['worker', 'local'])"
        " as kind"
    )
    run(dsn, add)
    grade, text = grades(line, code=0)["schedulers"]
    assert grade == "warn"
    assert text == "only one: worker on node (1)"


def test_what_is_installed_against_our_bounds_is_named(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pip says it once, while it installs."""
    installed = {"celery": "5.4.0", "django": "5.2", "psycopg2": "2.9"}
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "mysite.settings")
    real = packages._version
    monkeypatch.setattr(
        packages, "_version", lambda name: installed.get(name) or real(name)
    )
    found = grades(line, code=1)  # no scheduler is alive
    assert found["package celery"][0] == "warn"
    assert "5.4.0; celery-pecker is made for" in found["package celery"][1]
    assert found["driver of Django"][0] == "warn"
    assert "not on psycopg2 2.9" in found["driver of Django"][1]
    assert "package kombu" not in found
    assert packages.driver(None).grade == "ok"
