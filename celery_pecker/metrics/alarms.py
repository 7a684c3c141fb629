"""What rings, as figures: there as soon as a replica has looked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from celery_pecker.alarms.overview import Overview, RuleRow, TargetRow


class Alarms:
    """Figures of alarms, over the owner's connection.

    Where the tables cannot be read there are none, as `celery_pecker_up` says.
    """

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self._read: tuple[Sequence[RuleRow], Sequence[TargetRow]] | None = None

    def refresh(self) -> None:
        """Have figures of now; for one thread at a time.

        Raises:
            DatabaseUnavailable: the tables cannot be read.
        """
        self._read = None
        self._read = self._overview.rules(), self._overview.targets()

    def collect(self) -> Iterator[Metric]:
        """Yield what was read. Never waits."""
        if self._read is not None:
            rules, targets = self._read
            yield from _rules(rules)
            yield from _targets(targets)


def _rules(rules: Sequence[RuleRow]) -> Iterator[Metric]:
    """Yield a series for each rule, with 0: an alert sees the first that rings."""
    ringing = GaugeMetricFamily(
        "celery_pecker_alarms_ringing", "Alarms that ring", labels=("rule",)
    )
    looked = GaugeMetricFamily(
        "celery_pecker_alarms_looked_seconds",
        "Since a replica looked by the rule",
        labels=("rule",),
    )
    for one in rules:
        ringing.add_metric([one.rule], float(one.ringing))
        looked.add_metric([one.rule], max(one.looked, 0.0))
    yield from (ringing, looked)


def _targets(targets: Sequence[TargetRow]) -> Iterator[Metric]:
    sent = CounterMetricFamily(
        "celery_pecker_alarm_notices_sent",
        "Notices that the target has taken",
        labels=("target",),
    )
    waiting = GaugeMetricFamily(
        "celery_pecker_alarm_notices_waiting",
        "Notices that the target does not have yet",
        labels=("target",),
    )
    failing = GaugeMetricFamily(
        "celery_pecker_alarm_target_failures",
        "How often in a row the target took nothing",
        labels=("target",),
    )
    for one in targets:
        sent.add_metric([one.target], float(one.sent))
        waiting.add_metric([one.target], float(one.waiting))
        failing.add_metric([one.target], float(one.failures))
    yield from (sent, waiting, failing)
