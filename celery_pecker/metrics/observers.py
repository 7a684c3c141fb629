"""What observers do, read at most every few seconds however often it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.observers.model import Place
from celery_pecker.observers.overview import SHOWN, KindRow, Overview, Summary

FRESH = 5.0
"""Seconds for which what was read is given again: counting reads the whole table."""
MOST_KINDS = 100
"""Kinds, at most, that have series of their own."""
STATES = ("up", "draining", "lapsed")
"""Of hosts; lapsed: the lease has ended, and no host has taken over yet."""


class Observers:
    """Figures of observers, over the owner's connection.

    Where the tables cannot be read there are none; see `celery_pecker_up`.
    """

    def __init__(self, overview: Overview, *, clock: Clock = SYSTEM) -> None:
        self._overview = overview
        self._clock = clock
        self._summary: Summary | None = None
        self._read_at: float | None = None

    def refresh(self) -> None:
        """Have figures of now, or of the last seconds; for one thread at a time.

        Raises:
            DatabaseUnavailable: the tables cannot be read.
        """
        now = self._clock.monotonic()
        if self._read_at is not None and now - self._read_at < FRESH:
            return
        self._summary, self._read_at = None, None
        self._summary = self._overview.summary()
        self._read_at = self._clock.monotonic()

    def collect(self) -> Iterator[Metric]:
        """Yield what was read. Never wait."""
        summary = self._summary
        if summary is not None:
            yield from _kinds(summary.kinds)
            yield from _hosts(summary)


def _kinds(kinds: Sequence[KindRow]) -> Iterator[Metric]:
    """Yield what there is of each kind, or of all where they are too many.

    A kind has a series for each place, with 0: an alert sees the first parked one.
    """
    count = GaugeMetricFamily(
        "celery_pecker_observers",
        "Observers that are not deleted, by where they are",
        labels=("kind", "place"),
    )
    weight = GaugeMetricFamily(
        "celery_pecker_observers_weight", "The sum of their weights", labels=("kind",)
    )
    moves = GaugeMetricFamily(
        "celery_pecker_observers_moves",
        "How often those that are there have moved to another host",
        labels=("kind",),
    )
    for one in kinds if len(kinds) <= MOST_KINDS else [totals(kinds)]:
        weight.add_metric([one.kind], float(one.weight))
        moves.add_metric([one.kind], float(one.moves))
        for place in SHOWN:
            count.add_metric([one.kind, str(place)], float(one.places[place]))
    yield from (count, weight, moves)


def totals(kinds: Sequence[KindRow]) -> KindRow:
    """Return what there is of all kinds, under an empty name. Pure."""
    places: dict[Place, int] = {
        place: sum(one.places[place] for one in kinds) for place in SHOWN
    }
    return KindRow(
        kind="",
        places=places,
        weight=sum(one.weight for one in kinds),
        moves=sum(one.moves for one in kinds),
    )


def _hosts(summary: Summary) -> Iterator[Metric]:
    states = dict.fromkeys(STATES, 0)
    for one in summary.hosts:
        states[one.state if one.lease > 0 else "lapsed"] += 1
    hosts = GaugeMetricFamily(
        "celery_pecker_observer_hosts", "Hosts of observers", labels=("state",)
    )
    for state, count in states.items():
        hosts.add_metric([state], float(count))
    yield hosts
    for name, text, value in (
        (
            "observer_hosts_capacity",
            "Weights that hosts which take observers may hold",
            summary.capacity,
        ),
        ("observer_hosts_held", "Weights that hosts hold", summary.held),
        (
            "observer_hosts_free",
            "Weights that hosts which take observers have room for",
            summary.free,
        ),
        (
            "observers_oldest_waiting_seconds",
            "For how long the oldest that a host may take has waited; 0: none waits",
            summary.oldest_waiting or 0.0,
        ),
        (
            "observer_notices_failing",
            "Signatures of on_parked and on_moved that could not be sent so far",
            summary.unsent.count,
        ),
        (
            "observer_notices_failing_seconds",
            "For how long the oldest of them could not be sent; 0: there is none",
            summary.unsent.oldest or 0.0,
        ),
    ):
        yield GaugeMetricFamily(f"celery_pecker_{name}", text, value=float(value))
