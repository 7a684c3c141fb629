"""The page *Throttle* in Flower: traffic against the limit, shares, what waits.

It comes with the pages of celery_pecker (``celery_pecker.flower.install``, which asks
the entry points ``celery_pecker.flower_pages``), in the same frame, and is in the menu
when the app has ``throttle_limits``. Drawn by hand are the bars and the charts; figures
and tables are those of `throttle.views`.

    watching   one look a second, and the last five minutes

The store is read by a thread of Flower, once a second however many people look, from
the first request until ten minutes after the last: the past is on the page if the
page was open, or Prometheus read its figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import Celery

from celery_pecker.surfaces.console.documents import plain
from celery_pecker.surfaces.flower.pages import Unreadable
from celery_pecker.surfaces.flower.rendering import page, rows_of
from celery_pecker.surfaces.views.model import Query, Shown, View
from throttle.clock import now
from throttle.errors import Misconfigured
from throttle.flower.watching import EVERY, Point, Watching
from throttle.metrics import Sums, families
from throttle.overview import Status, where
from throttle.settings import Settings
from throttle.views import (
    DATABASES,
    FIGURES,
    TENANTS,
    WORKERS,
    amounts,
    flow,
    outage,
    title,
)

if TYPE_CHECKING:
    from prometheus_client.core import Metric

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
        self.sums = Sums()


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


def limited(app: Celery) -> bool:
    """Return whether the app has limits, wrong ones too: the page shows the error."""
    return bool(app.conf.get("throttle_limits"))


def figures(app: Celery) -> Iterable[Metric]:
    """Return the figures of an app's databases; none where it has no limits."""
    if not limited(app):
        return ()
    mine = source(app)
    return families(mine.watching.picture(), mine.sums)


def read(mine: Source, query: Query) -> Shown:
    """Return how the databases stand, and stood in the last minutes."""
    del query
    picture, past = mine.watching.picture(), mine.watching.past()
    policies = (str(limit.policy) for limit in mine.settings.limits.values())
    return Shown(
        now_us=round(now().timestamp() * 1_000_000),
        summary=picture,
        rows={},
        extra={
            "title": title(picture),
            "away": outage(picture, policies),
            "where": f"Counted at {where(mine.settings)}, computed by the"
            f" {picture.estimator} estimator",
            "every": EVERY,
            "databases": [database(one, past) for one in picture.databases],
        },
    )


def database(
    status: Status, past: Sequence[Mapping[str, Point] | None]
) -> dict[str, Any]:
    """Return a database as JSON has it."""
    points = [None if one is None else one.get(status.name) for one in past]
    return {
        **plain(status),
        "amounts": amounts(status),
        "flow": " · ".join(flow(status)),
        "workers": rows_of(WORKERS, status.workers[:ROWS]),
        "all_workers": len(status.workers),
        "tenants": rows_of(TENANTS, status.tenants[:ROWS]),
        "all_tenants": len(status.tenants),
        "past": [
            None if one is None else [round(one.traffic), round(one.limit), one.held]
            for one in points
        ],
    }


PAGES = (
    page(
        View(
            name="throttle",
            title="Throttle",
            read=read,
            tables=(DATABASES, WORKERS, TENANTS),
            figures=FIGURES,
        ),
        source=lambda mine: mine,
        template="throttle.html",
        folder=Path(__file__).parent,
        opens=source,
        shown=limited,
        figures=figures,
        unread="The traffic cannot be read",
        comfort=(
            "This says nothing about the tasks themselves: workers that started go on"
            " as they were configured."
        ),
    ),
)
