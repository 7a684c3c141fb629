"""Schedules of each kind, and how they read as JSON."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from celery.schedules import crontab, schedule, solar

from celery_pecker.calendars import cron, jitter, recurrence, rrule, splay

PARIS = ZoneInfo("Europe/Paris")
START = datetime(2026, 3, 23, 18, tzinfo=UTC)

FORMS: list[tuple[Any, dict[str, Any]]] = [
    (30, {"every": 30}),
    (0.1, {"every": 0.1}),
    (30.0, {"every": 30}),
    (timedelta(minutes=1, milliseconds=500), {"every": 60.5}),
    (schedule(30), {"every": 30}),
    (schedule(30, relative=True), {"every": 30, "relative": True}),
    ({"every": 30.0, "relative": False}, {"every": 30}),
    (crontab(), {"crontab": "* * * * *"}),
    (
        crontab(
            minute="*/5",
            hour=[8, 17],
            day_of_week="mon-fri",
            day_of_month=[1],
            month_of_year=2,
        ),
        {"crontab": "*/5 8,17 1 2 mon-fri"},
    ),
    (solar("sunrise", 48.85, -2), {"solar": "sunrise", "lat": 48.85, "lon": -2}),
    (cron("*/10 * * * * *"), {"cron": "*/10 * * * * *"}),
    (
        cron("0 4 1 * 1", zone=PARIS, days="both", calendar="DE-BY", start=START),
        {
            "cron": "0 4 1 * 1",
            "zone": "Europe/Paris",
            "start": "2026-03-23T18:00:00+00:00",
            "calendar": "DE-BY",
            "days": "both",
        },
    ),
    (cron("@daily", zone=UTC), {"cron": "@daily", "zone": "UTC"}),
    (
        recurrence(start="2026-03-23 18:00", level="workday", every=2, calendar="CN"),
        {
            "recurrence": {
                "start": "2026-03-23T18:00:00",
                "level": "workday",
                "every": 2,
                "calendar": "CN",
            }
        },
    ),
    (
        recurrence(start="2026-03-23 18:00", level="month", every=1, days=[3, -1]),
        {
            "recurrence": {
                "start": "2026-03-23T18:00:00",
                "level": "month",
                "days": [3, -1],
            }
        },
    ),
    (
        rrule("FREQ=MONTHLY;BYDAY=-1FR", start="2026-01-30 10:00", zone="Asia/Tokyo"),
        {
            "rrule": "FREQ=MONTHLY;BYDAY=-1FR",
            "start": "2026-01-30T10:00:00",
            "zone": "Asia/Tokyo",
        },
    ),
    (splay(60), {"every": 60, "splay": True}),
    (splay(60, over=10, key="k"), {"every": 60, "splay": 10, "key": "k"}),
    (splay(cron("0 4 * * *"), over=600), {"cron": "0 4 * * *", "splay": 600}),
    (
        jitter(splay(cron("0 4 * * *"), over=600), most=timedelta(seconds=5)),
        {"cron": "0 4 * * *", "splay": 600, "jitter": 5},
    ),
    ({"every": 60, "jitter": 2}, {"every": 60, "jitter": 2}),
    ({"once": "2026-11-23 10:00+01:00"}, {"once": "2026-11-23T10:00:00+01:00"}),
]

DOCUMENTS = [
    form for n, (_, form) in enumerate(FORMS) if form not in [f for _, f in FORMS[:n]]
]
"""Each form once."""
