"""Figures of the tables, read at most once a second however often scraped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from celery_pecker.alarms.overview import Overview as AlarmsOverview
from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.lease import SECOND
from celery_pecker.kernel.settings import Settings
from celery_pecker.metrics.alarms import Alarms
from celery_pecker.metrics.observers import Observers
from celery_pecker.metrics.outbox import Outboxes
from celery_pecker.observers.overview import Overview as ObserversOverview
from celery_pecker.overview import EntryRow, Overview, Totals

MOST_SERIES = 200
"""Entries, at most, that have series of their own."""
FRESH = 1.0
"""Seconds for which figures are reused."""

logger = logging.getLogger(__name__)

_registered: dict[tuple[str, str], TableCollector] = {}
_registering = threading.Lock()


class TableCollector(Collector):
    """A collector over the tables; may be asked by several threads at once.

    While PostgreSQL is away ``celery_pecker_up`` is 0 and there are no other figures: a
    figure that may be hours old is worse than none. One thread reads at a time; a
    concurrent request gets the result of the last read, or waits for the first.
    """

    def __init__(
        self,
        overview: Overview,
        outboxes: Outboxes,
        observers: Observers,
        alarms: Alarms,
        *,
        clock: Clock = SYSTEM,
    ) -> None:
        self._overview = overview
        self._outboxes = outboxes
        self._observers = observers
        self._alarms = alarms
        self._clock = clock
        self._reading = threading.Lock()
        self._figures: tuple[Totals, list[EntryRow]] | None = None
        self._read_at: float | None = None

    def describe(self) -> Iterable[Metric]:
        """Return nothing: at registration the tables need not be there."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the figures of now, or of the last second."""
        self._refresh()
        figures = self._figures
        yield up(figures is not None)
        if figures is not None:
            totals, rows = figures
            yield from _totals(totals)
            yield from _entries(rows, totals.now_us)
            yield _runs(rows, totals)
            yield from self._observers.collect()
            yield from self._alarms.collect()
        yield from self._outboxes.collect()

    def close(self) -> None:
        """Drop the connection."""
        self._overview.close()
        self._outboxes.close()

    def abandon(self) -> None:
        """Drop the connection in a fork of its owner."""
        self._overview.abandon()
        self._outboxes.abandon()

    def _refresh(self) -> None:
        # The first answer is waited for: two scrapes that come together after the
        # start would else tell an outage that there is not.
        if not self._reading.acquire(blocking=self._read_at is None):
            return
        try:
            now = self._clock.monotonic()
            if self._read_at is not None and now - self._read_at < FRESH:
                return
            self._figures = self._read()
            self._read_at = self._clock.monotonic()
        finally:
            self._reading.release()

    def _read(self) -> tuple[Totals, list[EntryRow]] | None:
        try:
            totals = self._overview.totals()
            self._observers.refresh()
            self._alarms.refresh()
            few = totals.entries <= MOST_SERIES
            return totals, self._overview.page(limit=MOST_SERIES).rows if few else []
        except PeckerError:
            return None


def register(
    settings: Settings,
    registry: CollectorRegistry = REGISTRY,
    outboxes: Mapping[str, Settings] | None = None,
) -> TableCollector:
    """Register the figures of the tables; idempotent.

    `outboxes` are the settings of each outbox by its name; by default the one in the
    same schema.

    The registry is Prometheus' own one by default: that of the process' own
    figures. It has one schema: figures of two would have the same names, which
    Prometheus refuses.
    """
    if registry is not REGISTRY:
        made = _collector(settings, outboxes)
        registry.register(made)
        return made
    key = (settings.dsn, settings.schema)
    with _registering:
        known = _registered.get(key)
        if known is None:
            known = _registered[key] = _collector(settings, outboxes)
            if len(_registered) == 1:
                registry.register(known)
            else:
                logger.warning(
                    "pecker: no metrics of schema %s here: those of another app have"
                    " the same names; give each app a Flower of its own",
                    settings.schema,
                )
    return known


def _collector(
    settings: Settings, outboxes: Mapping[str, Settings] | None
) -> TableCollector:
    database = Database.of(settings, role="metrics")
    named = outboxes or {"default": settings}
    # One connection for all three: they are read in one turn.
    observers = Observers(ObserversOverview(database))
    alarms = Alarms(AlarmsOverview(database))
    return TableCollector(Overview(database), Outboxes.of(named), observers, alarms)


def up(read: bool) -> Metric:
    """Return the figure `up`: whether there are others."""
    return GaugeMetricFamily(
        "celery_pecker_up",
        "Whether the tables of celery-pecker could be read",
        value=float(read),
    )


def _totals(totals: Totals) -> Iterator[Metric]:
    for name, documentation, value in (
        ("entries", "Entries in the tables", totals.entries),
        ("entries_declared", "Entries of living replicas", totals.declared),
        ("entries_unclaimed", "Entries that no live replica claims", totals.unclaimed),
        ("entries_undeclared", "Entries that no replica declares", totals.undeclared),
        ("entries_paused", "Entries that are paused", totals.paused),
        (
            "entries_overdue",
            "Entries whose slot was not claimed in time",
            totals.overdue,
        ),
        (
            "entries_failing",
            "Entries that are not sent, or whose runs end badly",
            totals.failing,
        ),
        (
            "entries_undelivered",
            "Entries whose last slot was claimed and not sent",
            totals.undelivered,
        ),
        (
            "entries_unreported",
            "Entries of whose messages no worker reports though they should have begun",
            totals.unreported,
        ),
        ("slots_pending", "Slots claimed and not confirmed", totals.pending),
        ("slots_stuck", "Slots claimed long ago and not confirmed", totals.stuck),
        ("runs_asked", "Runs asked for by hand, not taken yet", totals.asked),
        ("replicas", "Live schedulers", totals.replicas),
        (
            "stored_unreadable",
            "Stored schedules that some scheduler cannot read",
            totals.unreadable,
        ),
        (
            "overdue_seconds",
            "For how long the most overdue slot has been due",
            totals.worst_us / SECOND,
        ),
    ):
        yield GaugeMetricFamily(
            f"celery_pecker_{name}", documentation, value=float(value)
        )
    yield CounterMetricFamily(
        "celery_pecker_slots_missed",
        "Slots that passed without a message or run",
        value=float(totals.missed),
    )


def _entries(rows: list[EntryRow], now_us: int) -> Iterator[Metric]:
    labels = ("entry", "name")
    age = GaugeMetricFamily(
        "celery_pecker_last_slot_age_seconds",
        "Since the instant of the last slot that was won",
        labels=labels,
    )
    late = GaugeMetricFamily(
        "celery_pecker_slot_late_seconds",
        "How late the last message or run was",
        labels=labels,
    )
    missed = CounterMetricFamily(
        "celery_pecker_entry_slots_missed",
        "Slots of the entry that passed without a message or run",
        labels=labels,
    )
    failing = GaugeMetricFamily(
        "celery_pecker_entry_failing",
        "Whether the entry is not sent, or its runs end badly",
        labels=labels,
    )
    unreported = GaugeMetricFamily(
        "celery_pecker_entry_unreported",
        "Whether no worker reports of its messages though they should have begun",
        labels=labels,
    )
    for row in rows:
        key = (row.name, row.task)
        unreported.add_metric(key, float(row.outcomes.unreported_us is not None))
        failing.add_metric(key, float(row.outcomes.failing))
        age.add_metric(key, max(now_us - row.last_us, 0) / SECOND)
        missed.add_metric(key, float(row.missed))
        if row.late_us is not None:
            late.add_metric(key, row.late_us / SECOND)
    yield from (age, late, missed, failing, unreported)


def _runs(rows: list[EntryRow], totals: Totals) -> Metric:
    """Return what became of runs: of each entry, or of all where they are too many.

    Each series is there from the start, with 0: a rate needs two values, and an alert
    that waits for the first overrun would not see it.
    """
    runs = CounterMetricFamily(
        "celery_pecker_runs",
        "What became of slots and their runs",
        labels=("entry", "name", "outcome"),
    )
    counted = [(row.name, row.task, row.outcomes.counts) for row in rows]
    for entry, name, counts in counted or [("", "", totals.counts)]:
        for outcome, count in counts.items():
            runs.add_metric((entry, name, outcome), float(count))
    return runs
