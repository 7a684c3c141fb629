"""The page *Alarms*: what rings, what has recovered lately, and where notices go."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from celery_pecker.alarms.overview import Overview
from celery_pecker.flower.pages import Page, Query, Source
from celery_pecker.kernel.clock import to_us

if TYPE_CHECKING:
    from celery import Celery

ROWS = 200


def shown(app: Celery) -> bool:
    """Return whether the app has alarms."""
    return bool(app.conf.get("pecker_dsn")) and bool(app.conf.get("pecker_alarms"))


def read(source: Source, query: Query) -> dict[str, Any]:
    """Return what rings and has rung, the rules and the targets."""
    del query
    overview = Overview(source.database)
    return {
        "now": to_us(overview.now()),
        "alarms": [
            _plain(asdict(one)) for one in overview.alarms(every=True, limit=ROWS)
        ],
        "rules": [asdict(one) for one in overview.rules()],
        "targets": [_plain(asdict(one)) for one in overview.targets()],
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as a browser reads them: instants in microseconds."""
    return {
        name: to_us(value) if isinstance(value, datetime) else value
        for name, value in values.items()
    }


ALARMS = Page(
    name="alarms",
    title="Alarms",
    url="/alarms",
    template="alarms.html",
    read=read,
    shown=shown,
    unread="The alarms cannot be read",
    comfort="While the database is away nothing is looked at, and nothing rings.",
)
PAGES = (ALARMS,)
