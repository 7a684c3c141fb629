"""What the page is, and what its script receives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import Celery

from celery_pecker.surfaces.flower.pages import Page, Query, Unreadable
from throttle.clock import now
from throttle.errors import Misconfigured
from throttle.flower.watching import EVERY, Point, Watching
from throttle.metrics import Admissions, families
from throttle.overview import Status
from throttle.overview.sampling import where
from throttle.settings import Settings

if TYPE_CHECKING:
    from prometheus_client.core import Metric

FOLDER = Path(__file__).parent
ROWS = 50
"""Workers and tenants of a database that a browser gets, at most."""
UNLIMITED = (
    "this app has no throttle_limits: what each database bears, {'main': 5000},"
    " and throttle_redis_url, where traffic is counted"
)


class Source:
    """What the page reads from: made once for an app."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.watching = Watching(settings)
        self.admissions = Admissions()


@lru_cache(maxsize=8)
def source(app: Celery) -> Source:
    """Return what the page of an app reads from."""
    try:
        settings = Settings.read(app.conf)
    except Misconfigured as error:
        raise Unreadable(str(error)) from error
    if not settings.enabled:
        raise Unreadable(UNLIMITED)
    return Source(settings)


def shown(app: Celery) -> bool:
    """Return whether the app has limits, wrong ones too: the page shows the error."""
    return bool(app.conf.get("throttle_limits"))


def figures(app: Celery) -> Iterable[Metric]:
    """Return the figures of an app's databases; none where it has no limits."""
    if not shown(app):
        return ()
    mine = source(app)
    return families(mine.watching.picture(), mine.admissions)


def read(mine: Source, query: Query) -> dict[str, Any]:
    """Return how the databases stand, and stood in the last minutes."""
    del query
    picture, past = mine.watching.picture(), mine.watching.past()
    return {
        "now": round(now().timestamp() * 1_000_000),
        "where": where(mine.settings),
        "policies": {
            name: str(limit.policy) for name, limit in mine.settings.limits.items()
        },
        "estimator": picture.estimator,
        "away": picture.away,
        "since": picture.since,
        "every": EVERY,
        "databases": [database(one, past) for one in picture.databases],
    }


def database(
    status: Status, past: Sequence[Mapping[str, Point] | None]
) -> dict[str, Any]:
    """Return a database as JSON has it."""
    points = [None if one is None else one.get(status.name) for one in past]
    return {
        **asdict(status),
        "traffic": status.traffic._asdict(),
        "outside": status.outside._asdict(),
        "fast": status.fast._asdict(),
        "workers": [asdict(one) for one in status.workers[:ROWS]],
        "all_workers": len(status.workers),
        "tenants": [asdict(one) for one in status.tenants[:ROWS]],
        "all_tenants": len(status.tenants),
        "past": [
            None if one is None else [round(one.traffic), round(one.limit), one.held]
            for one in points
        ],
    }


THROTTLE = Page(
    name="throttle",
    title="Throttle",
    url="/throttle",
    template="throttle.html",
    read=read,
    folder=FOLDER,
    opens=source,
    shown=shown,
    figures=figures,
    unread="The traffic cannot be read",
    comfort=(
        "This says nothing about the tasks themselves: workers that started go on as"
        " they were configured."
    ),
)
PAGES = (THROTTLE,)
