"""Over from what the other schedulers store, and back by the page's own snippets."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from celery_pecker.kernel.clock import from_us
from celery_pecker.surfaces.cli.other_schedulers import rows
from celery_pecker.surfaces.cli.other_schedulers.redbeat import redbeat
from celery_pecker.surfaces.cli.other_schedulers.tables import opened
from tests.command_line import Line
from tests.docs.pages import ROOT, steps
from tests.integration.cli.other_schedulers_stores import play, scene
from tests.integration.cli.test_other_schedulers_read import need

PAGE = ROOT / "docs/how-to/change-over.md"
LAST = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
NAMES = ("hourly", "sweep/all")
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


def way_back(peer: str) -> str:
    """Return what the page says for the way back."""
    [back] = [
        step.text
        for step in steps(PAGE.read_text())
        if step.language == "python" and f"\nfrom {peer}." in step.text
    ]
    return back


def ran_last(peer: str, *, dsn: str, redis_url: str) -> dict[str, datetime]:
    """Return what the store of a library says of last runs."""
    if peer == "redbeat":
        found = [*redbeat(redis_url)]
    else:
        ways = rows.django if peer.startswith("django") else rows.sqlalchemy
        with opened(dsn, (None, "celery_schema"), 5.0) as read:
            found = [*ways(read, rows.Zones(UTC, "UTC"))]
    return {one.name: from_us(one.last_us) for one in found if one.last_us}


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_last_runs_come_over_and_go_back(
    peer: str,
    tmp_path: Path,
    dsn: str,
    redis_url: str,
    make_line: Callable[..., Line],
) -> None:
    """To the microsecond; of what the code declares and of what comes to be stored."""
    need(peer)
    begun = scene(peer, dsn=dsn, redis_url=redis_url)
    constants = f"from datetime import datetime\nLAST = {LAST.isoformat()!r}\n"
    constants += "LAST = datetime.fromisoformat(LAST)\n"
    play(tmp_path, begun, constants + PEERS[peer])
    line = make_line(dsn, pecker_database_timeout=5.0)
    url = redis_url if peer == "redbeat" else dsn
    words = ("import", "--schedules", peer.partition("_")[0], url)
    told = line.json(*words)
    assert (told["code"], told["refused"]) == (1, 0)
    ran = line.json("export")
    assert {name: datetime.fromisoformat(ran[name]) for name in NAMES} == dict.fromkeys(
        NAMES, LAST
    )
    path = tmp_path / "last.json"
    path.write_text(json.dumps({"hourly": LATER.isoformat(), "gone": str(LATER)}))
    play(tmp_path, begun, way_back(peer))
    after = ran_last(peer, dsn=dsn, redis_url=redis_url)
    assert {name: after[name] for name in NAMES} == {
        "hourly": LATER,
        "sweep/all": LAST,
    }
