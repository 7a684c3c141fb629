"""From another scheduler and back: no slot comes twice, and none is missed."""

from __future__ import annotations

import json
import os
import shelve
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from celery_pecker.brokers.publisher.lanes import Dispatch
from celery_pecker.kernel.clock import SYSTEM, from_us, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.schedules.engine.model import Row
from celery_pecker.surfaces.cli.import_export import plan, read
from celery_pecker.testing import eventually
from celery_pecker.testing.manual import ManualClock
from tests.command_line import Line

HOUR = 3_600
PROJ = """
from celery import Celery
from celery.schedules import crontab
app = Celery("proj", broker={url!r})
app.conf.task_default_queue = {queue!r}
app.conf.timezone = "Europe/Berlin"
app.conf.beat_schedule = {{
    "quick": {{"task": "proj.work", "schedule": 0.5}},
    "hourly": {{"task": "proj.work", "schedule": 3600.0}},
    "nightly": {{"task": "proj.work", "schedule": crontab(hour=3, minute=0)}},
}}
"""
QUICK = {"task": "proj.work", "schedule": 0.5}
HOURLY = {"task": "proj.work", "schedule": 3600.0}


@pytest.fixture
def shelf(tmp_path: Path, redis_url: str, queue_name: str) -> tuple[Path, int]:
    """Give the file of a real beat that was stopped, and how often it sent `quick`."""
    (tmp_path / "proj.py").write_text(PROJ.format(url=redis_url, queue=queue_name))
    beat = subprocess.Popen(
        [sys.executable, "-m", "tests.lean", "-A", "proj", "beat", "--pidfile="],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    broker = redis.Redis.from_url(redis_url)
    try:
        eventually(lambda: broker.llen(queue_name) >= 3, 30.0, "beat sends")
    finally:
        beat.send_signal(signal.SIGTERM)
        beat.wait(30.0)
    sent = broker.llen(queue_name)
    broker.close()
    assert isinstance(sent, int)
    return tmp_path / "celerybeat-schedule", sent


def test_what_beat_has_sent_is_not_sent_again_and_what_it_has_not_is(
    shelf: tuple[Path, int], dsn: str, make_line: Callable[..., Line]
) -> None:
    """The slots of a real beat and of its successor are one grid without a gap.

    Half an hour lies between the two: of `quick` the last missed slot is run once
    (coalesce), `hourly` comes an hour after beat ran it, not after the change.
    """
    path, sent = shelf
    line = make_line(dsn, beat_schedule={"quick": QUICK, "hourly": HOURLY})
    with shelve.open(str(path), "r") as file:  # noqa: S301  # a test's own
        last = {name: entry.last_run_at for name, entry in file["entries"].items()}
        assert file["entries"]["quick"].total_run_count == sent
    found = line.json("import", str(path))
    verdicts = {one["name"]: one["verdict"] for one in found["entries"]}
    assert verdicts["quick"] == verdicts["hourly"] == "set"
    assert verdicts["nightly"] == "undeclared"
    start = max(last.values()) + timedelta(minutes=30)
    with line.replica(ManualClock(start)) as replica:
        gap = due(replica.publisher.sent)
        # Celery's own entry for results is due once a day, within the half hour too
        gap.pop("celery.backend_cleanup", None)
        assert {*gap} == {"quick"}
        sent_here = gap["quick"] + due(replica.pass_time(3))["quick"]
    assert len(gap["quick"]) == 1
    assert start - timedelta(seconds=0.5) < from_us(sent_here[0]) <= start
    assert (sent_here[0] - to_us(last["quick"])) % 500_000 == 0
    assert [b - a for a, b in pairwise(sent_here)] == [500_000] * 6
    slow = make_line(dsn, beat_schedule={"hourly": HOURLY})
    with slow.replica(ManualClock(start + timedelta(seconds=3))) as replica:
        hourly = due(replica.pass_time(HOUR))["hourly"]
    assert hourly == [to_us(last["hourly"]) + HOUR * 1_000_000]


def test_without_an_import_the_hour_would_be_missed(
    dsn: str, make_line: Callable[..., Line]
) -> None:
    """What the test above would see if `import` did nothing."""
    line = make_line(dsn, beat_schedule={"hourly": HOURLY})
    with line.replica() as replica:
        assert "hourly" not in due(replica.pass_time(HOUR / 2 + 10))


def due(sent: Sequence[Dispatch]) -> dict[str, list[int]]:
    """Return the slots that were sent, by entry."""
    found: dict[str, list[int]] = {}
    for run in sent:
        slot = to_us(datetime.fromisoformat(str(run.header["due_at"])))
        found.setdefault(run.name, []).append(slot)
    return found


def test_what_ran_here_is_kept_unless_asked_for(line: Line, tmp_path: Path) -> None:
    """A second import, or a late one, doubles nothing."""
    path = tmp_path / "last.json"
    now = SYSTEM.now()
    path.write_text(
        json.dumps(
            {
                "hourly": (now - timedelta(minutes=50)).isoformat(),
                "tick": (now - timedelta(minutes=1)).isoformat(),
                "timed": (now + timedelta(hours=1)).isoformat(),
                "gone": now.isoformat(),
            }
        )
    )
    dry = line.json("import", str(path), "--dry-run")
    assert (dry["set"], dry["ahead"], dry["undeclared"]) == (2, 1, 1)
    assert line.json("export") == {}
    assert line.json("import", str(path)) == {**dry, "dry_run": False}
    with line.replica() as replica:
        assert [run.name for run in replica.publisher.sent] == ["tick"]
        again = line.json("import", str(path))
        assert (again["kept"], again["set"]) == (1, 1)
        assert [run.name for run in replica.pass_time(1)] == ["tick"]
    over = line("import", str(path), "--overwrite")
    assert over.exit_code == 0
    assert "2 of 4 entries set" in over.stdout
    assert "note: 1 scheduler is alive" in over.stderr


def test_a_slot_won_meanwhile_is_not_taken_back(line: Line, dsn: str) -> None:
    """The write itself looks again: a scheduler may have started since the plan."""
    database = Database(dsn, schema="public", timeout=5.0)
    with line.replica(ManualClock(SYSTEM.now() - timedelta(minutes=2))) as replica:
        replica.pass_time(2)
        now = SYSTEM.now()
        given = {
            "tick": now - timedelta(minutes=50),
            "hourly": now - timedelta(minutes=50),
            "timed": now + timedelta(minutes=1),
        }
        rows = database.run(
            "import_last",
            now=None,
            names=[*given],
            instants=[*given.values()],
            overwrite=False,
        )
    database.close()
    assert rows == [("hourly",)]


def test_an_export_is_an_import(line: Line, tmp_path: Path) -> None:
    """To another database, or back to another scheduler: to the microsecond."""
    with line.replica() as replica:
        replica.pass_time(2)
    found = line.json("export")
    path = tmp_path / "last.json"
    path.write_text(line("export").stdout)
    assert read(path) == {
        name: to_us(datetime.fromisoformat(told)) for name, told in found.items()
    }
    assert {"tick", "hourly", "timed"} <= {*found}


WRONG = {
    "no such file": (None, "is neither beat's schedule file"),
    "no JSON": ("{", "is no JSON"),
    "a list": (" []", "holds no JSON object of instants by name"),
    "a naive instant": ('{"a": "2026-01-01T12:00"}', "with its offset"),
    "a number": ('{"a": 5}', "the last run of 'a' is 5"),
    "some text": ("hello", "is neither beat's schedule file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_one_line(case: str, line: Line, tmp_path: Path) -> None:
    """It names the file and what is allowed; nothing is written."""
    text, words = WRONG[case]
    path = tmp_path / "given"
    if text is not None:
        path.write_text(text)
    refused = line("import", str(path))
    assert refused.exit_code == 1
    assert refused.stderr.count("\n") == 1
    assert words in refused.stderr


def test_a_shelf_of_another_kind_is_refused(tmp_path: Path) -> None:
    """A shelf without beat's entries holds nothing; naive instants are UTC."""
    path = tmp_path / "shelf"
    with shelve.open(str(path)) as file:  # noqa: S301
        file["entries"] = {"a": Naive(), "b": object}
    assert read(path) == {"a": to_us(datetime(2026, 1, 1, tzinfo=UTC))}
    broken = tmp_path / "broken"
    with shelve.open(str(broken)) as file:  # noqa: S301
        file["entries"] = {}
        file.dict[b"entries"] = b"\x80no pickle"  # type: ignore[attr-defined]  # dbm below
    with pytest.raises(Misconfigured, match="cannot be read as beat's schedule file"):
        read(broken)


class Naive:
    """An entry as old beats wrote it."""

    last_run_at = datetime(2026, 1, 1)  # noqa: DTZ001


def test_the_plan_is_made_of_what_is_known() -> None:
    """Each verdict, without tables."""
    row = Row(executed_us=1, epoch=5, era=0, holder=None)
    fresh = Row(executed_us=1, epoch=0, era=0, holder=None)
    given = {"a": 10, "b": 10, "c": 10, "d": 11, "e": 10}
    rows = {"a": row, "b": fresh}
    found = plan(given, rows, declared="abcd", now_us=10, overwrite=False)
    assert [one.verdict for one in found] == [
        "kept",
        "set",
        "set",
        "ahead",
        "undeclared",
    ]
    found = plan(given, rows, declared="abcd", now_us=10, overwrite=True)
    assert found[0].verdict == "set"
