"""The snippets of the change-over page, run on what the other schedulers store."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from celery_pecker.cli.carried import read
from celery_pecker.kernel.clock import to_us
from tests.docs.pages import ROOT, steps
from tests.integration.cli.conftest import Line
from tests.integration.cli.peer_stores import play, scene

PAGE = ROOT / "docs/how-to/change-over.md"
LAST = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
LATER = LAST + timedelta(days=1)

STORE_REDBEAT = """
for name in ("hourly", "sweep/all"):
    entry = RedBeatSchedulerEntry(name, "work", schedule(3600), app=app)
    entry.save()
    entry.reschedule(last_run_at=LAST)
"""
STORE_DJANGO = """
from django.core.management import call_command
from django_celery_beat.models import IntervalSchedule, PeriodicTask
call_command("migrate", verbosity=0)
hour = IntervalSchedule.objects.create(every=1, period="hours")
for name in ("hourly", "sweep/all"):
    PeriodicTask(name=name, task="work", interval=hour, last_run_at=LAST).save()
PeriodicTask.objects.create(name="never", task="work", interval=hour)
"""
STORE_SQLALCHEMY = """
from sqlalchemy_celery_beat.models import IntervalSchedule, Period, PeriodicTask
from sqlalchemy_celery_beat.session import SessionManager
manager = SessionManager()
engine, _ = manager.create_session(app.conf.beat_dburi, schema="celery_schema")
manager.prepare_models(engine, schema="celery_schema")
with manager.session_factory(app.conf.beat_dburi, "celery_schema") as session:
    hour = IntervalSchedule(every=1, period=Period.HOURS)
    session.add(hour)
    session.flush()
    for name, last in (("hourly", LAST), ("sweep/all", LAST), ("never", None)):
        session.add(PeriodicTask(
            name=name, task="work", last_run_at=last,
            schedule_id=hour.id, discriminator=hour.discriminator,
        ))
    session.commit()
"""
PEERS = {
    "redbeat": STORE_REDBEAT,
    "django_celery_beat": STORE_DJANGO,
    "sqlalchemy_celery_beat": STORE_SQLALCHEMY,
}


def snippets(peer: str) -> tuple[str, str]:
    """Return what the page says for the way over, and for the way back."""
    over, back = [
        step.text
        for step in steps(PAGE.read_text())
        if step.language == "python" and f"\nfrom {peer}." in step.text
    ]
    return over, back


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_last_runs_come_over_and_go_back(
    peer: str,
    tmp_path: Path,
    dsn: str,
    redis_url: str,
    make_line: Callable[..., Line],
) -> None:
    """To the microsecond; what never ran is left out; `import` takes it all."""
    if importlib.util.find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed")
    begun = scene(peer, dsn=dsn, redis_url=redis_url)
    over, back = snippets(peer)
    constants = f"from datetime import datetime\nLAST = {LAST.isoformat()!r}\n"
    constants += "LAST = datetime.fromisoformat(LAST)\n"
    play(tmp_path, begun, constants + PEERS[peer])
    told = tmp_path / "last.json"
    told.write_text(play(tmp_path, begun, over))
    assert read(told) == {"hourly": to_us(LAST), "sweep/all": to_us(LAST)}
    line = make_line(dsn, pecker_database_timeout=5.0)
    assert line.json("import", str(told))["set"] == 1
    told.write_text(json.dumps({"hourly": LATER.isoformat(), "gone": str(LATER)}))
    play(tmp_path, begun, back)
    told.write_text(play(tmp_path, begun, over))
    assert read(told) == {"hourly": to_us(LATER), "sweep/all": to_us(LAST)}
