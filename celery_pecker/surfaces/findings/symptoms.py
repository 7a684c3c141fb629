"""What has gone wrong by the tables: entries, recorded tasks, observers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from celery_pecker.alarms.kinds import KINDS, Kind, Rule
from celery_pecker.alarms.model import Finding as Subject
from celery_pecker.alarms.overview import AlarmsOverview
from celery_pecker.alarms.tables import found
from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.lease import SECOND, SLACK
from celery_pecker.schedules.overview.reader import OVERDUE_TIMEOUT
from celery_pecker.surfaces.findings import others
from celery_pecker.surfaces.findings.model import Finding, fail, warn
from celery_pecker.surfaces.findings.pace import overdue
from celery_pecker.surfaces.findings.project import NAMED, Project, named
from celery_pecker.surfaces.views.phrases import plural, span

TROUBLE = "schedules?order=state"
"""The page of entries, those in trouble first."""
MOST = 1_000
"""Names of paused entries that are read."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """Rows that an alarm of this kind would ring for, as one finding."""

    kind: str
    check: str
    one: str
    many: str
    advice: str
    opens: str
    act: str = ""


SYMPTOMS = (
    Symptom(
        "failing",
        "failing",
        "entry fails",
        "entries fail",
        "see what their runs raised: celery -A proj pecker explain NAME",
        TROUBLE,
    ),
    Symptom(
        "outbox_parked",
        "parked",
        "task has parked messages",
        "tasks have parked messages",
        "mend what their errors say, and retry them, or drop them",
        "outbox?parked=1",
        "retry",
    ),
    Symptom(
        "observer_host",
        "observers hosts",
        "host of observers died",
        "hosts of observers died",
        "start it again: celery -A proj pecker observe",
        "observers",
    ),
    Symptom(
        "observer_parked",
        "observers parked",
        "observer is parked",
        "observers are parked",
        "mend what its error says, and restart it",
        "observers?place=parked",
        "restart",
    ),
    Symptom(
        "observer_notices",
        "observers unsent",
        "signature of an observer is not sent",
        "signatures of observers are not sent",
        "see that the broker takes them: its error says why not",
        "observers",
    ),
)


RINGS_FOR = {
    "overdue": "silent",
    "unreported": "unreported",
    "jobs wait": "job_hangs",
    "jobs untaken": "job_hangs",
    "jobs failed": "job_failed",
    **{one.check: one.kind for one in SYMPTOMS},
}
"""The kind of alarm that rings for what a check finds."""


def examine(project: Project) -> Iterator[Finding]:
    """Yield what is wrong, and who has it."""
    rings = AlarmsOverview(project.database).alarms(limit=MOST)
    taken = [one for one in rings if one.taken_by is not None]
    every = chain(_entries(project), _rows(project.database))
    for finding in chain(every, others.examine(project, in_tables=True)):
        kind = RINGS_FOR.get(finding.check)
        have = dict.fromkeys(
            f"{one.taken_by} has {one.subject}{f': {one.note}' if one.note else ''}"
            for one in taken
            if one.kind == kind
        )
        yield replace(finding, text="; ".join([finding.text, *[*have][:NAMED]]))


def _rows(database: Database) -> Iterator[Finding]:
    for symptom in SYMPTOMS:
        yield from described(symptom, found_by(database, KINDS[symptom.kind]))


def described(symptom: Symptom, rows: Sequence[Subject]) -> Iterator[Finding]:
    """Yield the finding that rows are, if there are any. Pure."""
    if rows:
        kind = KINDS[symptom.kind]
        first = kind.text(Rule(name="", kind=kind, terms=kind.terms), rows[0])
        names = named([one.subject for one in rows])
        began = [to_us(one.since) for one in rows if one.since is not None]
        yield fail(
            symptom.check,
            f"{plural(len(rows), symptom.one, symptom.many)}: {names}; {first}",
            symptom.advice,
            since_us=min(began, default=None),
            opens=symptom.opens,
            act=symptom.act,
        )


def found_by(database: Database, kind: Kind) -> Sequence[Subject]:
    """Return what an alarm of the kind would ring for, by its usual terms."""
    terms = kind.terms
    return found(
        database,
        kind.finds[0],
        now=None,
        after=terms.after,
        count=terms.count,
        within=terms.within,
    )


def _entries(project: Project) -> Iterator[Finding]:
    overview, totals = project.overview, project.totals
    timed = {
        name: one
        for name, one in project.declared.items()
        if one.period_us is None and one.recurrence is not None
    }
    now_us, rows = project.rows([*timed])
    within_us = round(OVERDUE_TIMEOUT * SECOND)
    late = [one for one in overdue(timed, rows, now_us, within_us) if one.name in rows]
    [(ahead_us,)] = project.database.run("examine_ahead", now=None)
    if ahead_us > SLACK * SECOND:
        yield fail(
            "clock step",
            f"the clock of the database was set back by {span(ahead_us)}, or a server"
            " with another clock has taken over: fencing tokens lie ahead of it",
            "let NTP set it, in small steps; entries go on by themselves, under a new"
            " clock generation",
        )
    if many := totals.overdue + len(late):
        longest = {one.name: one.overdue_us or 0 for one in late}
        if totals.overdue:
            longest[str(totals.worst)] = totals.worst_us
        name, worst_us = max(longest.items(), key=lambda one: one[1])
        yield fail(
            "overdue",
            f"{plural(many, 'entry is', 'entries are')} overdue, the longest {name!r}"
            f" for {span(worst_us)}",
            f"celery -A proj pecker explain {name!r}",
            since_us=totals.now_us - worst_us,
            opens=TROUBLE,
        )
    if totals.unclaimed:
        yield fail(
            "unclaimed",
            f"no live scheduler claims {plural(totals.unclaimed, 'entry', 'entries')}",
            "start one: celery -A proj beat -S pecker; of local entries a worker with"
            " pecker_worker = {'scheduler'}",
            opens=TROUBLE,
        )
    if totals.stuck or totals.undelivered:
        slots = max(totals.stuck, totals.undelivered)
        yield fail(
            "unsent",
            f"{plural(slots, 'slot was', 'slots were')} claimed and not sent",
            "see the log of the scheduler for what the broker said",
            opens=TROUBLE,
        )
    if totals.unreported:
        names = [
            name
            for name, one in overview.failing().items()
            if one.unreported_us is not None
        ]
        yield fail(
            "unreported",
            f"no worker reports of {plural(totals.unreported, 'entry', 'entries')} that"
            f" were sent: {named(names, totals.unreported)}",
            "see whether a worker listens to their queue: celery -A proj inspect"
            " active_queues",
            opens=TROUBLE,
        )
    bad = [one for one in project.stored if one.problem is not None]
    if many := max(totals.unreadable, len(bad)):
        first = f": {bad[0].name!r}: {bad[0].problem}" if bad else ""
        yield fail(
            "unreadable",
            f"{plural(many, 'stored schedule')} cannot be read, and not run{first}",
            "set it again: celery -A proj pecker set",
            opens=TROUBLE,
        )
    # What no code declares any more is counted as paused, and is not to be resumed.
    paused = totals.paused and project.database.run("list_paused", now=None, most=MOST)
    if paused:
        names = [name for (name,) in paused]
        yield warn(
            "paused",
            f"{plural(len(names), 'entry is', 'entries are')} paused, and not run:"
            f" {named(names)}",
            "resume what was forgotten",
            opens=TROUBLE,
            act="resume" if len(names) == 1 else "",
            about=names[0] if len(names) == 1 else "",
        )
