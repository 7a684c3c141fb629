"""What this process did since it started, counted from the signals."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from celery_pecker import signals

QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Bounds of the histograms in seconds: a wake-up is quick."""
LONG = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class ProcessMetrics:
    """Counters and histograms of one process, in the registry given."""

    def __init__(self, registry: CollectorRegistry, *, hostname: str) -> None:
        self._hostname = hostname

        def counter(name: str, documentation: str, *labels: str) -> Counter:
            full = f"celery_pecker_{name}"
            return Counter(
                full, documentation, ("hostname", *labels), registry=registry
            )

        def histogram(
            name: str, documentation: str, bounds: tuple[float, ...], *labels: str
        ) -> Histogram:
            full = f"celery_pecker_{name}_seconds"
            names = ("hostname", *labels)
            return Histogram(
                full, documentation, names, buckets=bounds, registry=registry
            )

        self._wakes = counter("wakeups", "Wake-ups that claimed")
        self._won = counter("slots_won", "Slots won here")
        self._published = counter("slots_published", "Slots whose message is out")
        self._lost = counter("slots_not_sent", "Slots won here and not sent")
        self._steps = counter("clock_steps", "Steps of the database's clock")
        self._refused = counter("runs_refused", "Runs not started", "name", "reason")
        self._claim = histogram("claim", "How long a claim took", QUICK)
        self._publish = histogram("publish", "How long a batch took", QUICK)
        self._late = histogram("lateness", "From the slot to its message", QUICK)
        self._ran = histogram("run", "How long runs took", LONG, "name", "state")
        signals.woke.connect(self._on_woke)
        signals.missed.connect(self._on_missed)
        signals.clock_stepped.connect(self._on_clock_stepped)
        signals.refused.connect(self._on_refused)
        signals.run_ended.connect(self._on_run_ended)

    def close(self) -> None:
        """Count no more."""
        signals.woke.disconnect(self._on_woke)
        signals.missed.disconnect(self._on_missed)
        signals.clock_stepped.disconnect(self._on_clock_stepped)
        signals.refused.disconnect(self._on_refused)
        signals.run_ended.disconnect(self._on_run_ended)

    def _on_woke(self, woke: signals.Woke) -> None:
        hostname = self._hostname
        self._wakes.labels(hostname).inc()
        self._won.labels(hostname).inc(woke.won)
        self._published.labels(hostname).inc(woke.published)
        self._claim.labels(hostname).observe(woke.claim_seconds)
        if woke.won:
            self._publish.labels(hostname).observe(woke.publish_seconds)
            self._late.labels(hostname).observe(woke.lateness_seconds)

    def _on_missed(self, missed: signals.Missed) -> None:
        self._lost.labels(self._hostname).inc(missed.slots)

    def _on_clock_stepped(self, _stepped: signals.ClockStepped) -> None:
        self._steps.labels(self._hostname).inc()

    def _on_refused(self, refused: signals.Refused) -> None:
        self._refused.labels(self._hostname, refused.task, refused.reason).inc()

    def _on_run_ended(self, ended: signals.RunEnded) -> None:
        hostname = self._hostname
        self._ran.labels(hostname, ended.task, ended.state).observe(ended.seconds)
