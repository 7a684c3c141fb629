"""What Prometheus and probes are told, on a real port over real tables."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from celery import Celery
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from celery_pecker import signals
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules.history.recorder import Recorder
from celery_pecker.schedules.history.report import Report
from celery_pecker.schedules.overview import Overview
from celery_pecker.surfaces.metrics import Server, TableCollector
from celery_pecker.surfaces.metrics.tables import MOST_SERIES
from celery_pecker.testing import eventually, free_port
from celery_pecker.testing.manual import ManualClock, ManualPecker
from tests.told import telling

DOCS = Path(__file__).parents[3] / "docs"
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def samples(text: str) -> Samples:
    """Return the values by metric and labels, as Prometheus itself reads them."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            labels = tuple(sorted(one.labels.items()))
            found.setdefault(one.name, {})[labels] = one.value
    return found


def app_of(entries: int) -> Celery:
    """Return an app with so many per-second entries."""
    app = Celery("shop", set_as_current=False)
    app.conf.beat_schedule = {
        f"entry-{nth}": {"task": "shop.look", "schedule": 1.0} for nth in range(entries)
    }
    return app


def run_for(app: Celery, dsn: str, seconds: float) -> None:
    """Let a scheduler run for that long, up to now."""
    clock = ManualClock(SYSTEM.now())
    clock.step(-seconds)
    with ManualPecker(app, dsn=dsn, clock=clock) as pecker:
        pecker.pass_time(seconds)


def scrape(settings: Settings) -> Samples:
    """Return what a registry of its own tells of the tables."""
    registry = CollectorRegistry()
    tables = TableCollector(settings)
    registry.register(tables)
    try:
        return samples(generate_latest(registry).decode())
    finally:
        tables.close()


def port_of(settings: Settings) -> int:
    """Return the port that is to be opened."""
    return int(str(settings.metrics).rpartition(":")[2])


@pytest.fixture
def settings(dsn: str) -> Settings:
    """An app with a port of its own."""
    return Settings(dsn=dsn, app="shop", metrics=f"127.0.0.1:{free_port()}")


@pytest.fixture
def alive() -> list[bool]:
    """Whether the scheduler turns: the test says."""
    return [True]


@pytest.fixture
def server(settings: Settings, alive: list[bool]) -> Iterator[Server]:
    """The port, open."""
    found = Server(settings, alive=lambda: alive[0], hostname="celery@here")
    yield found
    found.close()


def ask(server: Server, path: str) -> tuple[int, str]:
    """Return status and body of an answer."""
    try:
        with urllib.request.urlopen(  # our own port
            f"http://127.0.0.1:{server.port}{path}", timeout=10
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_tables_are_told_as_they_are(dsn: str, settings: Settings) -> None:
    """Entries, those paused, missed slots and schedulers, by what the rows say."""
    run_for(app_of(3), dsn, 5)
    overview = Overview(Database(dsn, schema="public", timeout=5.0))
    overview.pause("entry-1")
    found = scrape(settings)
    overview.close()
    assert found["celery_pecker_up"] == {(): 1}
    assert found["celery_pecker_entries"] == {(): 3}
    assert found["celery_pecker_entries_declared"] == {(): 3}
    assert found["celery_pecker_entries_paused"] == {(): 1}
    assert found["celery_pecker_replicas"] == {(): 1}
    assert found["celery_pecker_stored_unreadable"] == {(): 0}
    assert found["celery_pecker_slots_missed_total"] == {(): 0}
    ages = found["celery_pecker_last_slot_age_seconds"]
    assert [dict(labels)["name"] for labels in ages] == ["shop.look"] * 3
    assert {dict(labels)["entry"] for labels in ages} == {
        "entry-0",
        "entry-1",
        "entry-2",
    }


def test_many_entries_have_no_series_of_their_own(dsn: str, settings: Settings) -> None:
    """A metrics system dies of labels long before a schedule is large."""
    run_for(app_of(MOST_SERIES + 1), dsn, 2)
    found = scrape(settings)
    assert found["celery_pecker_entries"] == {(): MOST_SERIES + 1}
    assert "celery_pecker_last_slot_age_seconds" not in found


def test_without_a_database_only_that_is_told(settings: Settings) -> None:
    """No figure is better than one that may be hours old."""
    away = Settings(dsn=f"postgresql://x@127.0.0.1:{free_port()}/x", app="shop")
    found = scrape(away)
    assert found == {
        "celery_pecker_up": {(): 0},
        "celery_pecker_outbox_up": {(("outbox", "default"),): 0},
    }


def test_this_process_is_counted(server: Server) -> None:
    """Wake-ups, slots, runs and refusals, under this process' hostname."""
    signals.woke.send(
        signals.Woke(
            due=3,
            won=2,
            published=2,
            missed=0,
            claim_seconds=0.004,
            publish_seconds=0.002,
            lateness_seconds=0.02,
        )
    )
    signals.refused.send(signals.Refused(name="a", task="shop.look", reason="late"))
    signals.run_ended.send(
        signals.RunEnded(name="a", task="shop.look", state="overrun", seconds=0.8)
    )
    found = samples(ask(server, "/metrics")[1])
    here = (("hostname", "celery@here"),)
    assert found["celery_pecker_wakeups_total"] == {here: 1}
    assert found["celery_pecker_slots_won_total"] == {here: 2}
    assert found["celery_pecker_lateness_seconds_sum"] == {here: 0.02}
    assert found["celery_pecker_runs_refused_total"] == {
        (*here, ("name", "shop.look"), ("reason", "late")): 1
    }
    assert found["celery_pecker_run_seconds_count"] == {
        (*here, ("name", "shop.look"), ("state", "overrun")): 1
    }
    assert found["celery_pecker_up"] == {(): 1}


def test_probes_get_an_answer_of_their_own(
    dsn: str, server: Server, alive: list[bool]
) -> None:
    """*live* is this process; *pace* is every due entry of whichever replica."""
    assert ask(server, "/live") == (200, "ok\n")
    alive[0] = False
    assert ask(server, "/live")[0] == 503
    run_for(app_of(2), dsn, 3)
    assert ask(server, "/pace") == (200, "2 entries keep their pace\n")
    assert ask(server, "/nowhere")[0] == 404


def test_an_overdue_entry_is_named(dsn: str, server: Server) -> None:
    """Nobody has won its slots for longer than a takeover takes."""
    clock = ManualClock(SYSTEM.now())
    clock.step(-60)
    with ManualPecker(app_of(1), dsn=dsn, clock=clock) as pecker:
        pecker.pass_time(5)
    status, said = ask(server, "/pace")
    assert status == 503
    assert said.startswith("1 of 1 overdue, 'entry-0' for 5")


def test_a_port_that_is_taken_is_had_later(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """In a deploy the process before this one keeps it until its tasks have ended."""
    place = ("127.0.0.1", port_of(settings))
    with socket.create_server(place):
        late = Server(settings, alive=lambda: True, hostname="x")
        assert late.port is None
    assert f"pecker_metrics {settings.metrics} cannot be had" in caplog.text
    eventually(lambda: late.port is not None, 30.0, "the port is had")
    assert ask(late, "/live") == (200, "ok\n")
    late.close()
    with socket.create_server(place):
        never = Server(settings, alive=lambda: True, hostname="x")
        never.close()


@pytest.mark.parametrize("address", ["[::1]", "localhost", "a..b", "ü" * 70])
def test_an_address_is_had_or_said(
    settings: Settings, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    """IPv6 as well; a name that is none ends nobody."""
    found = Server(
        replace(settings, metrics=f"{address}:{port_of(settings)}"),
        alive=lambda: True,
        hostname="x",
    )
    assert (found.port is None) == ("cannot be had" in caplog.text)
    assert (found.port is None) == (address not in ("[::1]", "localhost"))
    found.close()


FORKS = """
import os, socket, sys, threading, time
from celery_pecker import signals
from celery_pecker.surfaces.metrics import Server
from celery_pecker.kernel.settings import Settings
from tests.told import told
dsn, port = told()
server = Server(
    Settings(dsn=dsn, app="shop", metrics=f"127.0.0.1:{port}"),
    alive=lambda: True,
    hostname="x",
)
from urllib.request import urlopen
threads = threading.active_count()
urlopen(f"http://127.0.0.1:{port}/metrics").read()
while threading.active_count() > threads:  # who answered still holds the connection
    time.sleep(0.01)
seen, told = os.pipe()
for lock in (server._process._ran.func.__self__._lock, server._tables._reading):
    lock.acquire()  # whatever another thread was at when the pool made a process
if not os.fork():
    signals.run_ended.send(
        signals.RunEnded(name="a", task="t", state="succeeded", seconds=0.1)
    )
    mine = [
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.islink(f"/proc/self/fd/{fd}")
    ]
    os.write(told, str(sum(one.startswith("socket:") for one in mine)).encode())
    os._exit(0)
os.close(told)
print("child has", os.read(seen, 9).decode())
os._exit(0)
"""


def test_a_fork_holds_nothing_of_it(settings: Settings) -> None:
    """Neither port nor connection nor a lock that some thread had: pools fork."""
    said = subprocess.run(
        [sys.executable, "-c", FORKS],
        env=telling(settings.dsn, port_of(settings)),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert said.stdout == "child has 0\n", said.stderr


def test_scrapes_that_come_together_tell_the_same(
    settings: Settings, server: Server
) -> None:
    """Who comes while the first one reads the tables is not told of an outage."""
    for _ in range(5):
        registry = CollectorRegistry()
        tables = TableCollector(settings)
        registry.register(tables)
        with ThreadPoolExecutor(8) as threads:
            told = [*threads.map(generate_latest, [registry] * 8)]
        assert {samples(one.decode())["celery_pecker_up"][()] for one in told} == {1}
        tables.close()


def test_without_the_library_the_extra_is_named() -> None:
    """A setting that cannot be fulfilled is refused with the cure."""
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from importlib import util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda n: None if n == 'prometheus_client' else find(n)\n"
        "import celery_pecker.surfaces.metrics\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    ).stderr
    assert "celery_pecker.kernel.errors.Misconfigured" in said
    assert "pip install 'celery-pecker[metrics]'" in said


def alerting(name: str) -> tuple[str, dict[str, re.Pattern[str]]]:
    """Return the series of an alert's rate, and what its labels must match."""
    text = (DOCS / "monitoring" / "alerts.yml").read_text(encoding="utf-8")
    rule = text.split(f"- alert: {name}\n", 1)[1].split("- alert:", 1)[0]
    [(series, labels)] = re.findall(r"rate\((\w+)\{(.+?)\}\[10m\]\)", rule)
    wanted = re.findall(r'(\w+)=(~?)"(.+?)"', labels)
    return series, {
        label: re.compile(text if fuzzy else re.escape(text))
        for label, fuzzy, text in wanted
    }


def matching(found: Samples, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Return the samples that an alert's rate is taken of."""
    series, wanted = alerting(name)
    return {
        labels: value
        for labels, value in found[series].items()
        if all(pattern.fullmatch(dict(labels)[k]) for k, pattern in wanted.items())
    }


@pytest.mark.parametrize(
    ("alert", "report"),
    [
        ("PeckerRunsOverrun", Report.OVERRUN),
        ("PeckerRunsRefused", Report.REFUSED_LATE),
        ("PeckerRunsRefused", Report.REFUSED_REPEATED),
    ],
)
def test_an_alert_has_its_series_before_anything_happens(
    settings: Settings, dsn: str, alert: str, report: Report
) -> None:
    """With 0: a series that begins with the first overrun has no rate."""
    run_for(app_of(2), dsn, 2)
    before = matching(scrape(settings), alert)
    assert {dict(labels)["entry"] for labels in before} == {"entry-0", "entry-1"}
    assert {*before.values()} == {0.0}
    database = Database(dsn, schema="public", timeout=5.0)
    try:
        ours = Recorder(uuid.uuid4(), 600, host="celery@one")
        ours.note("entry-0", 10, 0, 1, 10, report)
        ours.flush(database, rows=10)
    finally:
        database.close()
    after = matching(scrape(settings), alert)
    risen = {labels for labels, value in after.items() if value > before[labels]}
    assert [dict(labels)["entry"] for labels in risen] == ["entry-0"]
