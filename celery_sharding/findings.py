"""What is wrong with sharded jobs, for the page *Now* and ``doctor``.

Told apart by the codes of their shards: none takes those that are ready (401), or a
worker that took some does not go on (402, 403).
"""

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace

from celery_pecker.alarms.kinds import KINDS
from celery_pecker.alarms.model import Finding as Subject
from celery_pecker.kernel.database import Database
from celery_pecker.surfaces.findings.model import Finding
from celery_pecker.surfaces.findings.others import Finder
from celery_pecker.surfaces.findings.project import Project
from celery_pecker.surfaces.findings.symptoms import Symptom, described, found_by
from celery_pecker.surfaces.views.model import Act
from celery_pecker.surfaces.views.phrases import plural
from celery_sharding.errors import ShardingError
from celery_sharding.ledger import PACKAGE, Ledger
from celery_sharding.model import Code

HANGS, FAILED = KINDS["job_hangs"], KINDS["job_failed"]
WAIT = Symptom(
    HANGS.name,
    "jobs wait",
    "sharded job stands still",
    "sharded jobs stand still",
    "see what its workers do: celery -A proj sharding show ID",
    "sharding",
)
UNTAKEN = replace(
    WAIT,
    check="jobs untaken",
    one="sharded job has shards that nobody takes",
    many="sharded jobs have shards that nobody takes",
    advice="see that workers live that take its queue: celery -A proj sharding show ID",
)
ENDED = Symptom(
    FAILED.name,
    "jobs failed",
    "sharded job failed within an hour",
    "sharded jobs failed within an hour",
    "see its errors, mend them, and retry: celery -A proj sharding errors ID",
    "sharding",
    "retry_jobs",
)


def examine(project: Project) -> Iterator[Finding]:
    """Yield what stands still, and what has failed."""
    hanging = found_by(project.database, HANGS)
    ready = [one for one in hanging if one.number == Code.UNTAKEN]
    yield from _told(UNTAKEN, ready)
    yield from _told(WAIT, [one for one in hanging if one not in ready])
    yield from _told(ENDED, [*found_by(project.database, FAILED)])


def _told(symptom: Symptom, rows: list[Subject]) -> Iterator[Finding]:
    if len(rows) == 1:
        opens = KINDS[symptom.kind].opens(rows[0].subject)
        symptom = replace(symptom, opens=opens)
    yield from described(symptom, rows)


def _retry(project: Project, key: str, user: str) -> str:
    rows = found_by(project.database, FAILED)
    database = Database.of(project.settings, role="cli", package=PACKAGE)
    with closing(Ledger(database)) as ledger:
        for row in rows:
            task_id = row.subject.rpartition(" ")[2]
            with suppress(ShardingError):  # somebody was quicker
                ledger.control.retry_failed(task_id)
    return plural(len(rows), "job")


FINDER = Finder(
    examine,
    in_tables=True,
    acts=(
        Act(
            "retry_jobs",
            "Retry what failed",
            _retry,
            "Their failed items run again, then Post: {answer}.",
            asks="What did not succeed of all jobs that failed within an hour runs"
            " again.",
            when=lambda finding: finding.act == "retry_jobs",
        ),
    ),
)
