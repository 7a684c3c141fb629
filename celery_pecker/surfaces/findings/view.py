"""The view *Now*: what is wrong, causes first, and what ends each of them."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from celery_pecker.alarms.kinds import KINDS
from celery_pecker.observers import operations as observers
from celery_pecker.outbox import operations as outbox
from celery_pecker.outbox.operations import Which
from celery_pecker.surfaces.findings.look import Report
from celery_pecker.surfaces.findings.model import Finding
from celery_pecker.surfaces.findings.others import finders
from celery_pecker.surfaces.findings.project import Project
from celery_pecker.surfaces.findings.symptoms import found_by
from celery_pecker.surfaces.views.model import (
    Act,
    Column,
    NoSuchRow,
    Shown,
    Table,
    View,
)
from celery_pecker.surfaces.views.phrases import plural


def _end(project: Project, key: str, user: str) -> None:
    if not project.database.run("end_session", key=key):
        raise NoSuchRow("that session has ended by itself")


def _retry(project: Project, key: str, user: str) -> str:
    return plural(outbox.retry(project.database, Which(parked=True)), "message")


def _restart(project: Project, key: str, user: str) -> str:
    rows = found_by(project.database, KINDS["observer_parked"])
    for row in rows:
        observers.restart(project.database, row.subject)
    return plural(len(rows), "observer")


def _take(project: Project, key: str, user: str) -> str:
    replies = project.app.control.add_consumer(key, reply=True) or ()
    if not replies:
        raise NoSuchRow("no worker answers: start one")
    return plural(len(replies), "worker")


def _act(
    name: str,
    label: str,
    call: Callable[[Project, str, str], object],
    says: str,
    asks: str,
) -> Act:
    return Act(
        name, label, call, says, asks=asks, when=lambda finding: finding.act == name
    )


CAUSES = Table(
    name="causes",
    title="Now",
    key="check",
    columns=(
        Column("state", "state", "state"),
        Column("title", "cause", "name", notes=("check",)),
        Column("text", "what"),
        Column("advice", "what to do"),
        Column("since_us", "since", "instant"),
        Column("under", "follows from", width="aside"),
        Column("about", "about", width="aside"),
        Column("opens", "opens", width="aside"),
    ),
    states={"wrong": "bad", "worth a look": "missed", "well": "done"},
    acts=(
        _act(
            "end",
            "End the session",
            _end,
            "Ended: what it did in its transaction is undone.",
            "What it did in its transaction is undone, and its program gets an error.",
        ),
        _act(
            "retry",
            "Retry all parked",
            _retry,
            "To be tried again, with all attempts: {answer}.",
            "All parked messages are tried again, with all attempts.",
        ),
        _act(
            "restart",
            "Restart all parked",
            _restart,
            "Begins again, with all retries: {answer}.",
            "All parked observers begin again, with all retries.",
        ),
        _act(
            "resume",
            "Resume",
            lambda project, key, user: project.schedules.resume(key, by=user),
            "Resumed, with the next slot.",
            "Its slots run again, from the next one on.",
        ),
        _act(
            "pause",
            "Pause",
            lambda project, key, user: project.schedules.pause(key, by=user),
            "Paused: slots pass without a run.",
            "Its slots pass without a run until it is resumed.",
        ),
        _act(
            "take",
            "Have workers take it",
            _take,
            "Takes the queue by now, until it is restarted: {answer}.",
            "All living workers take messages from it too, until they are restarted.",
        ),
        *(one for finder in finders() for one in finder.acts),
    ),
    nouns=("finding", "findings"),
    by_hand=True,
)
CHECKS = replace(
    CAUSES,
    name="checks",
    title="All checks",
    acts=(),
    columns=CAUSES.columns[:4],
    by_hand=False,
)
NOW = View(
    name="now",
    title="Now",
    read=lambda *_: None,  # its page looks by itself, whoever is there to see it
    tables=(CAUSES, CHECKS),
    figures=(),
)


def listed(report: Report) -> Iterator[Finding]:
    """Yield each cause, and what follows from it."""
    for cause in report.causes:
        yield cause
        yield from (replace(one, under=cause.check) for one in cause.consequences)


def shown(report: Report) -> Shown:
    """Return what a page shows of a look."""
    return Shown(
        now_us=report.now_us,
        summary=report,
        rows={"causes": [*listed(report)], "checks": report.findings},
        extra={"wrong": report.wrong, "sentence": report.sentence},
    )
