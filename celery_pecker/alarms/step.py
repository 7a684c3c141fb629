"""What one replica does for alarms: look by due rules, and send what waits."""

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from datetime import datetime
from functools import partial

from celery_pecker.alarms.kinds import KINDS, Look, Rule, Seams
from celery_pecker.alarms.model import LOG, DueRule, Finding, Notice, Ring, shortened
from celery_pecker.alarms.tables import Tables
from celery_pecker.alarms.targets import NotSent, Target
from celery_pecker.kernel import user_code
from celery_pecker.kernel.aside import aside
from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.kernel.once_a_minute import OnceAMinute

logger = logging.getLogger("celery_pecker.alarms")

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


FORGET_INTERVAL = 3_600.0
"""Seconds between two looks for what is old."""


@dataclass(eq=False)
class Rounds:
    """The rounds of a replica: of all of them one looks at a rule in each interval."""

    rules: InitVar[Sequence[Rule]]
    evaluator: Evaluator
    _: KW_ONLY
    interval: float
    clock: Clock = SYSTEM
    _added: bool = False
    _next_forgetting: float = 0.0
    _begun: int = 0

    def __post_init__(self, rules: Sequence[Rule]) -> None:
        self._tables = self.evaluator.tables
        self._rules = {rule.name: rule for rule in rules}
        self._targets = [LOG, *sorted({name for rule in rules for name in rule.to})]
        self._failed = OnceAMinute(
            logger, prefix="pecker: a look failed: ", level=logging.ERROR
        )

    def step(self) -> bool:
        """Look at what is due; return whether notices wait to be sent."""
        if not self._added:
            self._tables.add([*self._rules], self._targets)
            self._added = True
        now, due_rules, waiting = self._tables.due_rules([*self._rules], self.interval)
        # Another one is the first each time: one that fails starves no other.
        turns = deque(due_rules)
        turns.rotate(-self._begun)
        self._begun += bool(due_rules)
        for due in turns:
            made, error = user_code.tried(
                self.evaluator.evaluate, self._rules[due.rule], due, now
            )
            if isinstance(error, DatabaseUnavailable):
                raise error
            if error is not None:
                self._failed.warning(due.rule, "%s: %r", due.rule, error)
                continue
            if made is None:
                logger.info("pecker: a look for %s was overtaken", due.rule)
            waiting += made or 0
        if due_rules and self.clock.monotonic() >= self._next_forgetting:
            self._next_forgetting = self.clock.monotonic() + FORGET_INTERVAL
            self._tables.forget(self._targets)
            self._added = False  # a rule may be back after a day
        return waiting > 0


Call = Future[BaseException | None]
"""A call of a target: what it raised."""
AT_ONCE = 20
HOLD = 60.0
"""Seconds for which a claimed notice belongs to its sender. A call begins in the first
half of them and is given up after the other, so no two senders call at a time."""
LONGEST_ERROR = 500


@dataclass(eq=False)
class Sending:
    """Sends what waits, on the thread of its caller; at least once.

    A notice is a row until its target has it. A replica claims it for a time, under an
    epoch; when that time has passed another replica claims it. A notice whose sender
    died before it could record the sending is sent twice, under the same id.
    """

    tables: Tables
    targets: Mapping[str, Target]
    _: KW_ONLY
    timeout: float | None = None
    """Seconds of a call; None: half of the hold."""
    clock: Clock = SYSTEM
    flower_url: str | None = None
    _late: dict[str, tuple[Notice, Call]] = field(default_factory=dict)
    """Calls that were given up and have not returned, by target."""
    _unsent: list[Notice] = field(default_factory=list)
    """What was sent, and the database did not take it down."""

    def step(self) -> int:
        """Send some; return how many were taken."""
        self._catch_up()
        free = [name for name in self.targets if name not in self._late]
        timeout = HOLD / 2 if self.timeout is None else self.timeout
        began = self.clock.monotonic()
        taken = self.tables.take(free, hold=HOLD, most=AT_ONCE)
        failed: set[str] = set()
        for notice in taken:
            if notice.target in failed:
                continue  # it rests, and its notices were freed with it
            if self.clock.monotonic() - began > HOLD - timeout:
                break  # others may take the rest before this one has sent it
            linked = replace(notice, link=link_of(notice, self.flower_url))
            call = aside(
                f"pecker-alarms-{notice.target}",
                partial(user_code.raised, self.targets[notice.target], linked),
            )
            error = raised_by(call, timeout)
            if error is None:
                self._sent(notice)
                continue
            if not call.done():
                self._late[notice.target] = notice, call
            failed.add(notice.target)
            text = _line(error)
            self.tables.failed(notice, text)
            logger.warning(
                "pecker: target %s did not take a notice, tried again: %s",
                notice.target,
                text,
            )
        return len(taken)

    def _sent(self, notice: Notice) -> None:
        self._unsent.append(notice)
        self.tables.sent(notice)
        self._unsent.remove(notice)

    def _catch_up(self) -> None:
        """Close what was sent while the database was away, and what returned late."""
        for notice in [*self._unsent]:
            self.tables.sent(notice)
            self._unsent.remove(notice)
        for name, (notice, call) in [*self._late.items()]:
            if call.done():
                del self._late[name]
                if call.result() is None:
                    self._sent(notice)


def raised_by(call: Call, timeout: float) -> Exception | None:
    """Return what a target raised, or that it has not returned in time.

    What ends threads or processes is returned as the text of an error.
    """
    try:
        error = call.result(timeout)
    except TimeoutError:
        return NotSent(f"it did not return within {timeout:g} s")
    if error is None or isinstance(error, Exception):
        return error
    return NotSent(f"it raised {error!r}")


def link_of(notice: Notice, flower_url: str | None) -> str:
    """Return where Flower shows what a notice is about; empty: nobody says where."""
    if not flower_url:
        return ""
    one = len(notice.subjects) == 1 and notice.kind in KINDS
    page = KINDS[notice.kind].opens(notice.subjects[0]) if one else "alarms"
    return f"{flower_url.rstrip('/')}/{page}"


def _line(error: Exception) -> str:
    """Return an error on one line, cut, as PostgreSQL can store it."""
    return " ".join(user_code.shown(error).split())[:LONGEST_ERROR]
