"""A rule, and what it may look for: a class each, which has all that is said of it.

A new kind is a class here, and a statement in alarms.sql.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import ClassVar
from urllib.parse import quote

from celery_pecker.alarms.model import MOST, Finding, StoredSlot
from celery_pecker.kernel import user_code

INTERVAL = 10.0
"""Seconds between two looks of all replicas together, which cost PostgreSQL 0.3 s of
100,000 entries; less where trouble of a rule rings sooner than that."""
LEAST_INTERVAL = 0.5
WHY = "ask why: celery pecker explain NAME"
UNSURE = "unsure"
"""Detail of an entry of which it is not known whether a replica still declares it."""
Held = Callable[[], Collection[str]]
"""Gives the entries that the gate of this process held back lately."""
Shut = Callable[[], Collection[str]]
"""Gives the names of what the gate of this process lets nothing through to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """When an alarm rings, and what is sent of it. Durations in seconds."""

    after: float = 0.0
    """For how long it must be so."""
    count: int = 1
    """How many, where the kind counts."""
    within: float = 600.0
    """The window that is counted in, or for which an event is news."""
    cooldown: float = 900.0
    """From one notice that it rings to the next, at least."""
    recovery: bool = True
    """Whether its end is worth a notice."""
    mute: bool = False
    """Whether nothing rings at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What the rule looks for, and the targets that are notified."""

    name: str
    kind: "Kind"
    terms: Terms
    only: tuple[str, ...] = ("*",)
    """Patterns of the subjects that it is about."""
    each: tuple[tuple[str, Terms], ...] = ()
    """Terms of subjects that match a pattern; the first one that matches holds."""
    to: tuple[str, ...] = ()
    """Targets beside the log."""
    storm: int = 10
    """How many may begin, or end, within a minute with a notice each."""
    severity: str = "critical"
    """How bad it is: critical or warning."""

    def terms_of(self, subject: str) -> Terms | None:
        """Return the terms of a subject; None: the rule is not about it."""
        for pattern, terms in self.each:
            if fnmatchcase(subject, pattern):
                return None if terms.mute else terms
        if any(fnmatchcase(subject, pattern) for pattern in self.only):
            return self.terms
        return None

    @property
    def interval(self) -> float:
        """Seconds between two looks at most, so that it rings in time."""
        every = [self.terms, *(terms for _, terms in self.each)]
        short = [max(one.after, LEAST_INTERVAL) for one in every if one.after]
        return min([INTERVAL, *short])

    @property
    def least(self) -> Terms:
        """The terms by which the most is found: subjects are judged one by one."""
        every = [self.terms, *(terms for _, terms in self.each if not terms.mute)]
        return Terms(
            after=min(one.after for one in every),
            count=min(one.count for one in every),
            within=max(one.within for one in every),
        )


@dataclass(frozen=True, kw_only=True)
class Seams:
    """What a look asks for beside the tables."""

    slack: float
    """Seconds by which the clock of the database may step back unnoticed."""
    term: float
    """Seconds for which a replica declares its entries."""
    instants: Callable[[datetime], Mapping[str, datetime]] = lambda _: {}
    """Gives, of entries that are no grid, the last instant before a moment."""
    stored: Callable[[Sequence[StoredSlot], datetime], Mapping[str, datetime]] = (
        lambda _, __: {}
    )
    """Gives, of stored schedules that are no grid, the first instant after a slot."""
    declares: Callable[[str], bool] = bool
    """Whether this process declares an entry."""
    shut: Shut = frozenset
    held: Held = frozenset
    parked: Callable[[], tuple[Sequence[Finding], bool]] = lambda: ((), True)
    """Gives what is parked in other outboxes, and whether each of them answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look by a rule."""

    rule: Rule
    seams: Seams
    now: datetime
    first: bool
    """Whether no look was ever recorded."""
    stepped: float
    """Seconds by which the clock reads earlier than at the last look."""
    find: Callable[..., list[Finding]]
    """Returns what a statement finds, by its label and parameters of the kind's own."""
    slots: Callable[[], list[StoredSlot]]
    """Returns the last slots of stored schedules that are no grid."""


Found = tuple[Sequence[Finding], bool]
"""What is wrong, and whether that is all."""
KINDS: "dict[str, Kind]" = {}
"""All kinds by their names."""


class Kind:
    """What a rule looks for: by which statements, and what a person reads of it."""

    name: ClassVar[str]
    finds: ClassVar[tuple[str, ...]]
    sentence: ClassVar[str]
    """With count, length, within, detail, text (the detail behind ": "), and s and are,
    which agree with the count."""
    advice: ClassVar[str] = "celery pecker alarms lists what rings"
    """What to do, as the log says it."""
    terms: ClassVar[Terms] = Terms()
    """Of a rule that says nothing else."""
    severity: ClassVar[str] = "critical"
    page: ClassVar[str] = "schedules/entry?name={}"
    """Where Flower shows a subject: the address behind that of Flower."""
    counts: ClassVar[bool] = False
    """Whether the number of a finding is compared with the count of a rule."""
    in_parts: ClassVar[bool] = False
    """Whether it reads entries, a part of all names in each look."""
    asks_gate: ClassVar[bool] = False

    def __init_subclass__(cls, name: str = "", finds: tuple[str, ...] = ()) -> None:
        """Add the kind to all that there are."""
        if name:
            cls.name, cls.finds = name, finds
            KINDS[name] = cls()

    def find(self, look: Look) -> Found:
        """Return what is wrong, and whether that is all."""
        whole, findings = True, dict[str, Finding]()
        for label in self.finds:
            rows = look.find(label, **self.params(look))
            whole = whole and len(rows) < MOST
            for one in rows:
                if one.detail != UNSURE or look.seams.declares(one.subject):
                    findings.setdefault(one.subject, one)
        return [*findings.values()], whole

    def params(self, look: Look) -> dict[str, object]:
        """Return what the statements are asked with beside the terms."""
        return {}

    def opens(self, subject: str) -> str:
        """Return where Flower shows a subject, behind the address of Flower."""
        return self.page.format(quote(subject, safe=""))

    def text(self, rule: Rule, finding: Finding) -> str:
        """Return what a person reads of a finding."""
        count = f"{finding.number:.0f}"
        return self.sentence.format(
            count=count,
            s="" if count == "1" else "s",
            are="is" if count == "1" else "are",
            length=length(finding.number),
            within=length(rule.terms.within),
            text=f": {finding.detail}" if finding.detail else "",
            detail=finding.detail,
        )


def length(seconds: float) -> str:
    """Return a length of time."""
    for below, unit, name in ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h")):
        if seconds < below:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.0f} days"


class Silent(Kind, name="silent", finds=("find_silent",)):
    """No slot of an entry is won, and no gate holds it back."""

    sentence = "no slot of it was won for {length} since it was due"
    advice = WHY
    terms = Terms(after=60.0)
    in_parts = True
    wanted: ClassVar[bool] = False
    """Whether what a gate holds back is looked for: it is not silent, it is held."""

    def params(self, look: Look) -> dict[str, object]:
        """Return what is held, and when entries that are no grid were due."""
        until = look.now - timedelta(seconds=look.rule.least.after)
        stored = look.seams.stored(look.slots(), look.now).items()
        known = {
            **look.seams.instants(until),
            **{name: due for name, due in stored if due <= until},
        }
        return {
            "held": [*look.seams.held()],
            "wanted": self.wanted,
            "names": [*known],
            "instants": [*known.values()],
            "term": look.seams.term,
        }


class HeldBack(Silent, name="held", finds=("find_silent",)):
    """A gate holds back a slot."""

    severity = "warning"
    sentence = "the gate holds back a slot of it that was due {length} ago"
    terms = Terms(after=300.0)
    wanted = True


class Failing(Kind, name="failing", finds=("find_failing",)):
    """The last slot was not sent, or its run ended badly."""

    sentence = "its last slot was not sent, or its last run ended badly{text}"
    advice = WHY
    terms = Terms(after=60.0)


class Unreported(Kind, name="unreported", finds=("find_unreported",)):
    """No worker reports of what was sent."""

    sentence = (
        "what was sent of it should have begun {length} ago, and no worker reports"
        " of it"
    )
    terms = Terms(after=60.0)
    in_parts = True


class Counted(Kind):
    """What a counter of the entry's row counts."""

    from_now: ClassVar[bool] = False
    """Whether counters are read of each subject: what was before is no news."""

    def params(self, look: Look) -> dict[str, object]:
        """Return which counter, and what it does not know yet."""
        first = look.first or self.from_now
        return {"kind": self.name, "first": first, "more": 0, "detail": ""}


class Misfire(Counted, name="misfire", finds=("find_counted",)):
    """Slots passed without a run."""

    severity = "warning"
    sentence = "{count} of its slots passed without a run within {within}"
    terms = Terms(count=3)
    counts = True
    in_parts = True
    from_now = True


class Overrun(Counted, name="overrun", finds=("find_counted", "find_long_runs")):
    """Runs took longer than their timeout, or one is in hand for too long."""

    severity = "warning"
    sentence = "{count} of its runs overran their timeout within {within}"

    def text(self, rule: Rule, finding: Finding) -> str:
        """Return it, or for how long a run is in hand."""
        if finding.since is not None:
            return f"a run of it has been in hand for {length(finding.number)}"
        return super().text(rule, finding)


class Overtaken(Counted, name="overtaken", finds=("find_counted",)):
    """Newer runs began before older ones."""

    severity = "warning"
    sentence = "{count} of its runs were overtaken by newer ones within {within}"
    terms = Terms(count=3)
    counts = True


class Clock(Counted, name="clock", finds=("find_counted",)):
    """The clock of the database stepped."""

    severity = "warning"
    page = "now"
    from_now = True

    def params(self, look: Look) -> dict[str, object]:
        """Return the step that this look has seen, too."""
        params = super().params(look)
        if look.stepped > look.seams.slack:
            stepped = f"stepped back by {look.stepped:.1f} s"
            params |= {"more": 1, "detail": f"the clock of the database {stepped}"}
        return params

    def text(self, rule: Rule, finding: Finding) -> str:
        """Return how the clock stepped, where it is known."""
        return finding.detail or "the clock of the database has stepped: an era rose"


class GateShut(Kind, name="shut"):
    """The gate of this process lets nothing through to a database."""

    page = "throttle"
    sentence = "the gate lets nothing through to it"
    terms = Terms(after=300.0)
    asks_gate = True

    def find(self, look: Look) -> Found:
        """Ask the gate; there is no statement."""
        # A gate that raises says nothing, and not that it lets all through: the look
        # fails, and nothing has recovered.
        with user_code.no_exit("the gate"):
            shut = look.seams.shut()
        return [Finding(name, about=name) for name in shut], True


class OfJob(Kind):
    """Something is wrong with a sharded job."""

    page = "sharding/job?id={}"

    def opens(self, subject: str) -> str:
        """Return its page; the subject is its task and its id."""
        return super().opens(subject.rpartition(" ")[2])


class JobHangs(OfJob, name="job_hangs", finds=("find_hanging_jobs",)):
    """Shards of a job wait."""

    terms = Terms(after=60.0)
    codes: ClassVar[Mapping[int, str]] = {
        401: "ready, and no worker claims {them}",
        402: "claimed, and not begun",
        403: "claimed by a worker that is gone",
    }

    def text(self, rule: Rule, finding: Finding) -> str:
        """Return how many shards, and their code."""
        code, one = int(finding.number), finding.detail == "1"
        what = self.codes[code].format(them="it" if one else "them")
        are = "is" if one else "are"
        return f"{finding.detail} of its shards {are} {what} ({code})"


class JobFailed(OfJob, name="job_failed", finds=("find_failed_jobs",)):
    """A job has failed."""

    sentence = "the job has failed{text}"
    terms = Terms(within=3_600.0, recovery=False)


class JobLate(OfJob, name="job_late", finds=("find_late_jobs",)):
    """A job does not end."""

    severity = "warning"
    sentence = "submitted {length} ago, it has not ended: it is {detail}"
    terms = Terms(after=3_600.0)


class OutboxParked(Kind, name="outbox_parked", finds=("find_outbox_parked",)):
    """Recorded tasks are parked, in any outbox of the app."""

    page = "outbox?parked=1&task={}"
    sentence = "{count} recorded task{s} {are} parked{text}"
    counts = True

    def opens(self, subject: str) -> str:
        """Return the page; the subject may name the outbox."""
        task, _, outbox = subject.partition(" in ")
        return super().opens(task) + (f"&outbox={quote(outbox)}" if outbox else "")

    def find(self, look: Look) -> Found:
        """Ask the outboxes in other tables, too."""
        own, whole = super().find(look)
        others, complete = look.seams.parked()
        findings = {one.subject: one for one in (*own, *others)}
        return [*findings.values()], whole and complete


class ObserverParked(Kind, name="observer_parked", finds=("find_observers_parked",)):
    """An observer is parked."""

    page = "observers?search={}"
    sentence = "it is parked after {count} failure{s}{text}"


class ObserverHost(Kind, name="observer_host", finds=("find_observer_hosts",)):
    """A host of observers is gone without a goodbye."""

    page = "observers"
    sentence = (
        "the host of observers stopped without a goodbye; {count} observer{s} {are}"
        " still with it"
    )
    terms = Terms(after=5.0)


class ObserverNotices(Kind, name="observer_notices", finds=("find_observer_notices",)):
    """A signature of an observer is not sent."""

    severity = "warning"
    page = "observers"
    sentence = "its signature was tried {count} time{s} and not sent{text}"
    terms = Terms(count=5)
    counts = True
