"""One look at everything: what is wrong, causes first."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from celery_pecker.kernel.clock import SYSTEM, to_us
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.schedules.overview import Totals
from celery_pecker.surfaces.findings import broker, hosts, others, packages, postgres
from celery_pecker.surfaces.findings.model import Finding, Grade, fail
from celery_pecker.surfaces.findings.project import Project
from celery_pecker.surfaces.findings.roots import rooted
from celery_pecker.surfaces.views.history import PointRow, past
from celery_pecker.surfaces.views.phrases import count, duration, plural

DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one look found."""

    now_us: int
    findings: Sequence[Finding]
    """Of each check."""
    causes: Sequence[Finding]
    """What is wrong, the deepest cause first, each with what follows from it."""
    totals: Totals | None = None
    """The figures of all entries; None: they could not be read."""
    day: PointRow | None = None
    """What the last day came to, read where nothing is wrong; None: not known."""

    @property
    def wrong(self) -> int:
        """Return how many causes there are to mend."""
        return sum(one.grade is Grade.FAIL for one in self.causes)

    @property
    def sentence(self) -> str:
        """Return all of it in one line."""
        if not self.findings:
            return "The first look goes on …"
        worth = len(self.causes) - self.wrong
        more = f", {count(worth)} worth a look" if worth else ""
        if self.wrong:
            return f"{plural(self.wrong, 'cause')} to mend{more}"
        if self.totals is None:
            return f"Nothing is wrong{more}"
        ended = self.totals.counts
        well, bad = (
            ended["succeeded"],
            ended["failed"] + ended["overrun"] + ended["lost"],
        )
        when, late = "so far", ""
        if self.day is not None:
            when, well, bad = "within a day", self.day.succeeded, self.day.bad
            late = f", 95 % at most {duration(self.day.late_p95)} late"
        return (
            f"All is well: {plural(self.totals.entries, 'entry', 'entries')} on"
            f" {plural(self.totals.replicas, 'scheduler')}; {when}"
            f" {count(well)} runs ended well, {count(bad)} badly{late}{more}"
        )


def look(project: Project, since: Mapping[str, int] | None = None) -> Report:
    """Return what is wrong.

    Args:
        project: what is looked at; by this thread alone.
        since: when a look before found what it found, by its check.

    """
    project.look_again()
    findings: list[Finding] = []
    totals = None
    with ThreadPoolExecutor(1, "pecker-look") as thread:
        replies = thread.submit(broker.ask, project.app)
        try:
            findings += packages.examine(project)
            findings += hosts.examine(project)
            findings += postgres.examine(project)
            if not any(one.check == "database" for one in findings):
                totals = project.totals
            findings += others.examine(project, in_tables=False)
            findings += broker.judged(project, replies.result())
        except PeckerError as error:  # what code declares, or settings say
            findings.append(fail("settings", str(error), "mend it, and restart"))
    now_us = to_us(SYSTEM.now()) if totals is None else totals.now_us
    findings = [*_dated(findings, since or {}, now_us)]
    report = Report(
        now_us=now_us, findings=findings, causes=rooted(findings), totals=totals
    )
    if report.wrong or totals is None:
        return report
    with suppress(PeckerError):  # what the last day came to is not known then
        day = past(project.database, "entry", "", length_us=DAY_US).total
        if day.published:
            return replace(report, day=day)
    return report


def _dated(
    findings: Sequence[Finding], since: Mapping[str, int], now_us: int
) -> Iterator[Finding]:
    """Yield findings with the instant since which they are known to be so. Pure."""
    for one in findings:
        if one.since_us is None and one.grade is not Grade.OK:
            yield replace(one, since_us=since.get(one.check, now_us))
        else:
            yield one
