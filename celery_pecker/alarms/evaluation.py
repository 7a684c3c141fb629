"""Evaluate one rule: read what is wrong, and judge it by the rule's terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from celery_pecker.alarms.kinds import Look, Rule, Seams
from celery_pecker.alarms.model import DueRule, Finding, Ring, shortened
from celery_pecker.alarms.tables import Tables

PART = 100_000
"""Entries of which one look reads the rows: 0.1 s, and most of that for 20,000, too."""


@dataclass(frozen=True, kw_only=True)
class Evaluator(Seams):
    """Finds what is wrong; which of it rings the table decides."""

    tables: Tables
    part: int = PART

    def evaluate(self, rule: Rule, due: DueRule, now: datetime) -> int | None:
        """Record what is wrong; return how many notices it made, None if overtaken."""
        low, high = self._names(due) if rule.kind.in_parts else ("", "")
        least = rule.least

        def find(label: str, **params: object) -> list[Finding]:
            return self.tables.find(
                label,
                now=self.tables.now,
                rule=rule.name,
                after=least.after,
                count=least.count,
                within=least.within,
                low=low,
                high=high,
                **params,
            )

        look = Look(
            rule=rule,
            seams=self,
            now=now,
            first=due.first,
            stepped=due.stepped or 0.0,
            find=find,
            slots=lambda: self.tables.stored_slots(rule, least.after, (low, high)),
        )
        findings, whole = rule.kind.find(look)
        return self.tables.record(
            rule,
            due,
            judged(rule, findings, now),
            ["log", *rule.to],
            passed=high,
            whole=whole,
        )

    def _names(self, due: DueRule) -> tuple[str, str]:
        """Return after which name the part begins, and with which it ends."""
        high = self.tables.part(due.passed, self.part)
        if high is None and due.passed:  # all were read: from the first one on
            return "", self.tables.part("", self.part) or ""
        return due.passed, high or ""


def judged(rule: Rule, findings: Sequence[Finding], now: datetime) -> list[Ring]:
    """Return what is wrong by the terms of each subject. Pure."""
    rings = []
    for one in findings:
        terms = rule.terms_of(one.about or one.subject)
        if terms is None or (rule.kind.counts and one.number < terms.count):
            continue
        if one.since is not None and (now - one.since).total_seconds() < terms.after:
            continue
        rings.append(
            Ring(
                finding=one,
                detail=shortened(rule.kind.text(rule, one).replace("\0", "")),
                # What has a beginning is judged above: it is that old by its row.
                after=0.0 if one.since is not None else terms.after,
                cooldown=terms.cooldown,
                recovery=terms.recovery,
            )
        )
    return rings
