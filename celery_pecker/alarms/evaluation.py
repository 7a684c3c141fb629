"""Evaluate one rule: read what is wrong, and judge it by the rule's terms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

from celery_pecker.alarms.model import Finding, Kind, Rule
from celery_pecker.alarms.sentences import sentence
from celery_pecker.alarms.tables import FINDERS, MOST, DueRule, Ring, StoredSlot, Tables
from celery_pecker.kernel import user_code

Instants = Callable[[datetime], Mapping[str, datetime]]
"""Gives, of entries that are no grid, the last instant before a moment."""
Stored = Callable[[Sequence[StoredSlot], datetime], Mapping[str, datetime]]
"""Gives, of stored schedules that are no grid, the first instant after a slot."""
Shut = Callable[[], Collection[str]]
"""Gives the names of what the gate of this process lets nothing through to."""
Held = Callable[[], Collection[str]]
"""Gives the entries that the gate of this process held back lately."""
Parked = Callable[[], tuple[Sequence[Finding], bool]]
"""Gives what is parked in other outboxes, and whether each of them answered."""


PART = 100_000
"""Entries of which one look reads the rows: 0.1 s, and most of that for 20,000, too."""
IN_PARTS = {Kind.SILENT, Kind.HELD, Kind.MISFIRE, Kind.UNREPORTED}
"""Kinds that read entries, a part of all names in each look."""
FROM_NOW = {Kind.MISFIRE, Kind.CLOCK}
"""Kinds whose counters are read of each subject: what was before is no news."""
UNSURE = "unsure"
"""Detail of an entry of which it is not known whether a replica still declares it."""


def no_instants(until: datetime) -> Mapping[str, datetime]:  # noqa: ARG001  # a seam
    """Return nothing."""
    return {}


def none_parked() -> tuple[Sequence[Finding], bool]:
    """Return that there are no other outboxes."""
    return (), True


def none_stored(slots: Sequence[StoredSlot], now: datetime) -> Mapping[str, datetime]:  # noqa: ARG001  # a seam
    """Return nothing."""
    return {}


class Evaluator:
    """Finds what is wrong; which of it rings the table decides."""

    def __init__(  # noqa: PLR0913  # its seams to code, gate and tables
        self,
        tables: Tables,
        *,
        slack: float,
        term: float,
        instants: Instants = no_instants,
        stored: Stored = none_stored,
        declares: Callable[[str], bool] = bool,
        shut: Shut = frozenset,
        held: Held = frozenset,
        parked: Parked = none_parked,
        part: int = PART,
    ) -> None:
        self._tables = tables
        self._slack = slack
        self._term = term
        self._instants = instants
        self._stored = stored
        self._declares = declares
        self._shut = shut
        self._held = held
        self._parked = parked
        self._part = part

    def evaluate(self, rule: Rule, due: DueRule, now: datetime) -> int | None:
        """Record what is wrong; return how many notices it made, None if overtaken."""
        names = self._names(due) if rule.kind in IN_PARTS else ("", "")
        findings, whole = self._findings(rule, due, now, names)
        return self._tables.record(
            rule,
            due,
            judged(rule, findings, now),
            ["log", *rule.to],
            passed=names[1],
            whole=whole,
        )

    def _names(self, due: DueRule) -> tuple[str, str]:
        """Return after which name the part begins, and with which it ends."""
        high = self._tables.part(due.passed, self._part)
        if high is None and due.passed:  # all were read: from the first one on
            return "", self._tables.part("", self._part) or ""
        return due.passed, high or ""

    def _findings(
        self, rule: Rule, due: DueRule, now: datetime, names: tuple[str, str]
    ) -> tuple[Sequence[Finding], bool]:
        """Return what is wrong, and whether that is all."""
        if rule.kind is Kind.SHUT:
            # A gate that raises says nothing, and not that it lets all through: the
            # look fails, and nothing has recovered.
            with user_code.no_exit("the gate"):
                shut = self._shut()
            closed = [Finding(subject=name, detail="", about=name) for name in shut]
            return closed, True
        whole = True
        findings: dict[str, Finding] = {}
        for label in FINDERS[rule.kind]:
            params = self._params(label, rule, due)
            params |= {"rule": rule.name, "low": names[0], "high": names[1]}
            if label == "find_silent":
                # What a gate holds back is not silent: it is held.
                wanted = rule.kind is Kind.HELD
                params |= {"held": [*self._held()], "wanted": wanted}
                params |= self._due(rule, now, names)
            rows = self._tables.find(label, **params)
            whole = whole and len(rows) < MOST
            for one in rows:
                if one.detail != UNSURE or self._declares(one.subject):
                    findings.setdefault(one.subject, one)
        if rule.kind is Kind.OUTBOX_PARKED:
            others, complete = self._parked()
            findings |= {one.subject: one for one in others}
            whole = whole and complete
        return [*findings.values()], whole

    def _params(self, label: str, rule: Rule, due: DueRule) -> dict[str, object]:
        least = rule.least
        params: dict[str, object] = {
            "now": self._tables.now,
            "after": least.after,
            "count": least.count,
            "within": least.within,
        }
        if label == "find_counted":
            stepped = due.stepped or 0.0
            more = rule.kind is Kind.CLOCK and stepped > self._slack
            text = f"the clock of the database stepped back by {stepped:.1f} s"
            params |= {
                "kind": rule.kind,
                "first": due.first or rule.kind in FROM_NOW,
                "more": int(more),
                "detail": text if more else "",
            }
        return params

    def _due(
        self, rule: Rule, now: datetime, names: tuple[str, str]
    ) -> dict[str, object]:
        """Return when entries that are no grid were due."""
        after = rule.least.after
        slots = self._tables.stored_slots(rule, after, names)
        until = now - timedelta(seconds=after)
        stored = self._stored(slots, now).items()
        known = {
            **self._instants(until),
            **{name: due for name, due in stored if due <= until},
        }
        return {
            "names": [*known],
            "instants": [*known.values()],
            "term": self._term,
        }


def judged(rule: Rule, findings: Sequence[Finding], now: datetime) -> list[Ring]:
    """Return what is wrong by the terms of each subject. Pure."""
    rings = []
    for one in findings:
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
