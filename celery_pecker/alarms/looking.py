"""One look of one rule: what is wrong, judged by the rule's terms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

from celery_pecker.alarms.model import Finding, Kind, Rule
from celery_pecker.alarms.tables import FINDERS, Ring, Tables, Turn
from celery_pecker.alarms.words import sentence
from celery_pecker.kernel import user_code

Instants = Callable[[datetime], Mapping[str, datetime]]
"""Gives, of entries that are no grid, the last instant before a moment."""
Shut = Callable[[], Collection[str]]
"""Gives the names of what the gate of this process lets nothing through to."""


UNSURE = "unsure"
"""Said of an entry that nobody may declare any more."""


def no_instants(until: datetime) -> Mapping[str, datetime]:  # noqa: ARG001  # a seam
    """Return nothing."""
    return {}


class Looking:
    """Finds what is wrong; which of it rings the table decides."""

    def __init__(
        self,
        tables: Tables,
        *,
        slack: float,
        term: float,
        instants: Instants = no_instants,
        declares: Callable[[str], bool] = bool,
        shut: Shut = frozenset,
    ) -> None:
        self._tables = tables
        self._slack = slack
        self._term = term
        self._instants = instants
        self._declares = declares
        self._shut = shut

    def look(self, rule: Rule, turn: Turn, now: datetime) -> int | None:
        """Look and record; return how many notices that made, None if overtaken."""
        rings = judged(rule, self._found(rule, turn, now), now)
        return self._tables.record(rule, turn, rings, ["log", *rule.to])

    def _found(self, rule: Rule, turn: Turn, now: datetime) -> Sequence[Finding]:
        if rule.kind is Kind.SHUT:
            names = user_code.call("the gate", frozenset[str](), self._shut)
            return [Finding(subject=name, detail="", about=name) for name in names]
        found: dict[str, Finding] = {}
        for label in FINDERS[rule.kind]:
            params = self._params(label, rule, turn, now)
            for one in self._tables.find(label, **params):
                if one.detail != UNSURE or self._declares(one.subject):
                    found.setdefault(one.subject, one)
        return [*found.values()]

    def _params(
        self, label: str, rule: Rule, turn: Turn, now: datetime
    ) -> dict[str, object]:
        least = rule.least
        params: dict[str, object] = {
            "now": self._tables.now,
            "after": least.after,
            "count": least.count,
            "within": least.within,
        }
        if label == "find_silent":
            known = self._instants(now - timedelta(seconds=least.after))
            params |= {
                "names": [*known],
                "instants": [*known.values()],
                "term": self._term,
            }
        elif label == "find_counted":
            stepped = turn.stepped or 0.0
            more = rule.kind is Kind.CLOCK and stepped > self._slack
            text = f"the clock of the database stepped back by {stepped:.1f} s"
            params |= {
                "kind": rule.kind,
                "rule": rule.name,
                "first": turn.first,
                "more": int(more),
                "detail": text if more else "",
            }
        return params


def judged(rule: Rule, found: Sequence[Finding], now: datetime) -> list[Ring]:
    """Return what is wrong by the terms of each subject. Pure."""
    rings = []
    for one in found:
        terms = rule.terms_of(one.about or one.subject)
        if terms is None or (one.number < terms.count and rule.kind in COUNTING):
            continue
        if one.since is not None and (now - one.since).total_seconds() < terms.after:
            continue
        rings.append(
            Ring(
                finding=one,
                detail=sentence(rule, one),
                # What has a beginning is judged above: it is that old by its row.
                after=0.0 if one.since is not None else terms.after,
                cooldown=terms.cooldown,
                recovery=terms.recovery,
            )
        )
    return rings


COUNTING = {
    Kind.MISFIRE,
    Kind.OVERTAKEN,
    Kind.OUTBOX_PARKED,
    Kind.OBSERVER_NOTICES,
}
"""Kinds whose number is compared with the count of a rule."""
