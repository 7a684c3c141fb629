"""The statements of alarms. A look reads; one statement writes what follows from it."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import cast

from celery_pecker.alarms.kinds import Rule
from celery_pecker.alarms.model import (
    LOG,
    DueRule,
    Finding,
    Notice,
    Ring,
    StoredSlot,
    shortened,
)
from celery_pecker.kernel.database import Database

LEASE = 30.0
"""Seconds for which a look is its replica's; one that dies leaves it after them."""
FIRST_REST, LONGEST_REST = 5.0, 300.0
"""Seconds that a target which fails is left alone: doubled each time."""
NAMED = 5
"""How many subjects of a storm are named."""


class Tables:
    """Reads and writes alarms, over one connection: for one thread at a time."""

    def __init__(self, database: Database, holder: uuid.UUID) -> None:
        self.database = database
        self._holder = holder

    def add(self, rules: Sequence[str], targets: Sequence[str] = (LOG,)) -> None:
        """Insert a row for each rule, and each target, that has none."""
        self.database.change("add_alarm_rules", rules=[*rules], targets=[*targets])

    def due_rules(
        self, rules: Sequence[str], interval: float
    ) -> tuple[datetime, list[DueRule], int]:
        """Return the time, the rules to look at, and how many notices wait."""
        rows = self.database.run(
            "take_alarm_rules",
            rules=[*rules],
            interval=interval,
            lease=LEASE,
            holder=self._holder,
        )
        now, *_, waiting = rows[0]
        due_rules = [DueRule(*(*row[1:-1], interval)) for row in rows[1:]]
        return now, due_rules, waiting

    def find(self, label: str, **params: object) -> list[Finding]:
        """Return what a statement finds."""
        return found(self.database, label, **params)

    def stored_slots(
        self, rule: Rule, after: float, names: tuple[str, str]
    ) -> list[StoredSlot]:
        """Return the last slots of stored schedules of a part that are no grid."""
        rows = self.database.run(
            "find_stored_slots",
            rule=rule.name,
            after=after,
            low=names[0],
            high=names[1],
        )
        return [StoredSlot(*row) for row in rows]

    def part(self, low: str, most: int) -> str | None:
        """Return the name with which a part of all entries ends; None: none left."""
        [(name,)] = self.database.run("find_alarm_part", low=low, most=most)
        return cast("str | None", name)

    def record(
        self,
        rule: Rule,
        due: DueRule,
        rings: Sequence[Ring],
        targets: Sequence[str],
        *,
        passed: str = "",
        whole: bool = True,
    ) -> int | None:
        """Record a look; return how many notices it made, None if it was overtaken."""
        row = self.database.run_one(
            "record_alarms",
            rule=rule.name,
            kind=rule.kind.name,
            epoch=due.epoch,
            interval=due.interval,
            passed=passed,
            whole=whole,
            subjects=[one.finding.subject for one in rings],
            details=[one.detail for one in rings],
            sinces=[one.finding.since for one in rings],
            afters=[one.after for one in rings],
            cooldowns=[one.cooldown for one in rings],
            recoveries=[one.recovery for one in rings],
            storm=rule.storm,
            severity=rule.severity,
            targets=[*targets],
        )
        mine, news = row or (0, 0)
        return news * len(targets) if mine else None

    def forget(self, targets: Sequence[str]) -> None:
        """Remove alarms that recovered long ago, and undeclared rules and targets."""
        self.database.change("forget_alarms", targets=[*targets])

    def take(self, targets: Sequence[str], *, hold: float, most: int) -> list[Notice]:
        """Return notices to send, held for so many seconds."""
        rows = self.database.run(
            "take_alarm_notices",
            targets=[*targets],
            holder=self._holder,
            hold=hold,
            most=most,
        )
        notices = [_notice(Notice(*row)) for row in rows]
        return sorted(notices, key=lambda one: one.id)

    def sent(self, notice: Notice) -> bool:
        """Close a notice that its target has; False: it was replaced, or taken over."""
        return (
            self.database.run_one(
                "close_alarm_notice",
                id=notice.id,
                epoch=notice.epoch,
                holder=self._holder,
                target=notice.target,
                rule=notice.rule,
                subject=notice.subject,
            )
            is not None
        )

    def failed(self, notice: Notice, error: str) -> None:
        """Let a target rest that did not take a notice."""
        self.database.change(
            "fail_alarm_notice",
            id=notice.id,
            target=notice.target,
            holder=self._holder,
            error=error,
            first=FIRST_REST,
            most=LONGEST_REST,
        )


def found(database: Database, label: str, **params: object) -> list[Finding]:
    """Return what a statement finds."""
    return [Finding(*row) for row in database.run(label, **params)]


def _notice(one: Notice) -> Notice:
    subjects = tuple(one.subjects)
    detail = storm(subjects, one.detail) if len(subjects) > 1 else one.detail
    return replace(one, subjects=subjects, detail=detail)


def storm(subjects: Sequence[str], detail: str) -> str:
    """Return what a person reads of many at once: how many, and the first of them."""
    named = ", ".join(subjects[:NAMED])
    more = len(subjects) - NAMED
    text = f"{len(subjects)} at once: {named}"
    if more > 0:
        text += f" and {more} more (`celery pecker alarms` lists them)"
    return shortened(f"{text}; of the first: {detail}")
