"""What one replica does for alarms: look by due rules, and send what waits."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from celery_pecker.alarms.evaluation import Evaluator
from celery_pecker.alarms.kinds import Rule
from celery_pecker.alarms.model import LOG, DueRule
from celery_pecker.alarms.tables import Tables
from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import Clock
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.kernel.once_a_minute import OnceAMinute

logger = logging.getLogger("celery_pecker.alarms")

FORGET_INTERVAL = 3_600.0
"""Seconds between two looks for what is old."""


class Rounds:
    """The rounds of a replica: of all of them one looks at a rule in each interval."""

    def __init__(
        self,
        rules: Sequence[Rule],
        tables: Tables,
        evaluator: Evaluator,
        *,
        interval: float,
        clock: Clock,
    ) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._tables = tables
        self._evaluator = evaluator
        self._interval = interval
        self._clock = clock
        self._added = False
        self._next_forgetting = 0.0
        self._begun = -1
        self._failed = OnceAMinute(
            logger, prefix="pecker: a look failed: ", level=logging.ERROR
        )

    def step(self) -> bool:
        """Look at what is due; return whether notices wait to be sent."""
        if not self._added:
            self._tables.add([*self._rules])
            self._added = True
        now, due_rules, waiting = self._tables.due_rules([*self._rules], self._interval)
        for due in self._rotated(due_rules):
            made, error = user_code.tried(
                self._evaluator.evaluate, self._rules[due.rule], due, now
            )
            if isinstance(error, DatabaseUnavailable):
                raise error
            if error is not None:
                self._failed.warning(due.rule, "%s: %r", due.rule, error)
                continue
            if made is None:
                logger.info("pecker: a look for %s was overtaken", due.rule)
            waiting += made or 0
        if due_rules and self._clock.monotonic() >= self._next_forgetting:
            self._next_forgetting = self._clock.monotonic() + FORGET_INTERVAL
            self._tables.forget(
                [LOG, *{name for rule in self._rules.values() for name in rule.to}]
            )
            self._added = False  # a rule may be back after a day
        return waiting > 0

    def _rotated(self, due_rules: Sequence[DueRule]) -> Sequence[DueRule]:
        """Begin with another rule each time: one that fails starves no other."""
        if not due_rules:
            return due_rules
        self._begun += 1
        nth = self._begun % len(due_rules)
        return [*due_rules[nth:], *due_rules[:nth]]
