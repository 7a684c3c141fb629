"""The page *Throttle* in Flower: traffic against the limit, shares, what waits.

It comes with the pages of celery_pecker (``celery_pecker.flower.install``, which asks
the entry points ``celery_pecker.flower_pages``), in the same frame, and is in the menu
when the app has ``throttle_limits``. Drawn by hand are the bars and the charts; figures
and tables are those of `throttle.views`.

    `RecentLooks`  one look a second, and the last five minutes

The store is read by a thread of Flower, once a second however many people look, from
the first request until ten minutes after the last: the past is on the page if the
page was open, or Prometheus read its figures.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import Celery

from celery_pecker.kernel.clock import SYSTEM, Monotonic, monotonic, now
from celery_pecker.kernel.loop import Loop
from celery_pecker.surfaces.console.documents import plain
from celery_pecker.surfaces.flower.pages import Origin, Unreadable
from celery_pecker.surfaces.flower.rendering import page, rows_of
from celery_pecker.surfaces.views.model import Query, Shown, View
from throttle.errors import Misconfigured
from throttle.findings import explain
from throttle.metrics import Sums, families
from throttle.model import Store
from throttle.overview import Picture, Sampler, Status, open_store, where
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

EVERY = 1.0
KEPT = 300
"""Looks: five minutes."""
IDLE = 600.0
"""Seconds without a request after which the store is read no more."""
FIRST = 2.0
"""Seconds that the first request waits for the first read."""
OLD = 5.0
"""Seconds after which a picture counts as old: the thread hangs, or has died."""
MOST = 40
"""Databases whose last minutes are kept: those that need a look come first."""


Look = Mapping[str, Sequence[int]]
"""One look: of each database traffic, limit in force (0: none) and tasks held."""


@dataclass(eq=False, repr=False)
class RecentLooks:
    """What was seen of an app's databases lately; any thread may ask."""

    settings: Settings
    opens: Callable[[Settings], Store] = open_store
    clock: Monotonic = monotonic

    def __post_init__(self) -> None:
        self._change = threading.Lock()
        self._loop: Loop | None = None
        self._seen = threading.Event()
        self._asked = self.clock()
        self._looked = self.clock()
        self._picture: Picture | None = None
        self._past: deque[Look | None] = deque(maxlen=KEPT)

    def picture(self) -> Picture:
        """Return what was read last; the first request waits for it, in bounded time.

        Raises what the settings are refused with.
        """
        self._wake()
        self._seen.wait(FIRST)
        picture, age = self._picture, self.clock() - self._looked
        if picture is None:
            message = "it was asked and has not answered yet"
            return Picture(
                at=0.0,
                databases=(),
                estimator=str(self.settings.estimator),
                away=message,
                since=age,
            )
        if age > OLD and not picture.away:
            return replace(picture, away="it does not answer", since=age)
        return picture

    def past(self) -> Sequence[Look | None]:
        """Return the looks of the last minutes, one a second; None: no answer."""
        with self._change:
            return tuple(self._past)

    def close(self) -> None:
        """End the thread that reads the store."""
        if self._loop is not None:
            self._loop.stop()
            self._loop.join(FIRST)

    def _wake(self) -> None:
        """Start a thread that looks, unless one does."""
        with self._change:
            self._asked = self.clock()
            if self._loop is not None and not self._loop.stopping:
                return
            store = self.opens(self.settings)
            self._past.clear()  # what was long ago is not shown as if it were recent
            # A mistake in a look is logged and ends no thread: the picture grows old,
            # which the page shows, and the next look is soon.
            self._loop = Loop(
                partial(self._look, Sampler(store, self.settings, clock=self.clock)),
                name="throttle-flower",
                clock=SYSTEM,
                leave=store.close,
            )
            self._loop.start()

    def _look(self, sampler: Sampler) -> float:
        picture = sampler.sample()
        points = {
            one.name: [round(one.traffic.operations), round(one.in_force), one.held]
            for one in picture.databases[:MOST]
        }
        with self._change:
            self._picture, self._looked = picture, self.clock()
            self._past.append(None if picture.away else points)
            # Under the lock: else a thread would be woken that is just ending.
            if self._loop is not None and self._looked - self._asked > IDLE:
                self._loop.stop()
        self._seen.set()
        return EVERY


ROWS = 50
"""Workers and tenants of a database that a browser gets, at most."""
UNLIMITED = (
    "this app has no throttle_limits: what each database bears, {'main': 5000},"
    " and throttle_redis_url, where traffic is counted"
)


class Source:
    """What the page reads from: made once for an app."""

    def __init__(self, app: Celery, settings: Settings) -> None:
        self.app = app
        self.settings = settings
        self.charted = bool(app.conf.get("pecker_dsn"))
        """Whether the history has charts of its limits."""
        self.looks = RecentLooks(settings)
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
    return Source(app, settings)


def limited(app: Celery) -> bool:
    """Return whether the app has limits, wrong ones too: the page shows the error."""
    return bool(app.conf.get("throttle_limits"))


def figures(app: Celery) -> "Iterable[Metric]":
    """Return the figures of an app's databases; none where it has no limits."""
    if not limited(app):
        return ()
    mine = source(app)
    return families(mine.looks.picture(), mine.sums)


def read(mine: Source, query: Query) -> Shown:
    """Return how the databases stand, and stood in the last minutes."""
    picture, past = mine.looks.picture(), mine.looks.past()
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
            "charted": mine.charted,
            "databases": [database(one, past) for one in picture.databases],
        },
    )


def find(mine: Source, task_id: str, task: str) -> Origin | None:
    """Return why a task is held; workers are asked only where some is."""
    picture = mine.looks.picture()
    if not picture.held:
        return None
    reply = explain(mine.app, task_id, picture.databases)
    return None if reply.verdict in {"not_held", "unknown"} else Origin({}, reply.why)


def database(status: Status, past: Sequence[Look | None]) -> dict[str, Any]:
    """Return a database as JSON has it."""
    return {
        **plain(status),
        "amounts": amounts(status),
        "flow": " · ".join(flow(status)),
        "workers": rows_of(WORKERS, status.workers[:ROWS]),
        "all_workers": len(status.workers),
        "tenants": rows_of(TENANTS, status.tenants[:ROWS]),
        "all_tenants": len(status.tenants),
        "past": [one and one.get(status.name) for one in past],
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
        finds=find,
        unread="The traffic cannot be read",
        comfort=(
            "This says nothing about the tasks themselves: workers that started go on"
            " as they were configured."
        ),
    ),
)
