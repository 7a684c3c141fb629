"""What is true of all jobs after the chaos: nothing stuck, lost or doubled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from celery_sharding.codec import decode
from tests.chaos.sharding.tables import BAD, EVERY, ask

DIED, FAILED = 403, 302
JOBS = """
select job.task_id, job.stage, job.outcome, job.value, job.error::text, called.items
from pecker_jobs as job join chaos_called as called using (task_id)
"""
UNKNOWN = """
select task_id from chaos_called as called
where returned is not null
    and not exists (select from pecker_jobs where task_id = called.task_id)
"""
POSTS = "select token, task_id, pid, pgid, ended is not null from chaos_posts"
NEXT = "select task_id, token, count(*) from chaos_next group by task_id, token"
NOTES = "select task_id, count(*) from chaos_notes group by 1"
OPEN = "select count(*) from pecker_jobs where stage <> 'ended'"


@dataclass(slots=True)
class Verdict:
    """Jobs by what is wrong with them; all empty if the promise held."""

    jobs: int = 0
    items: int = 0
    begun_posts: int = 0
    continued_twice: int = 0
    """Jobs whose next step was sent more than once, all with the same value: the
    process that sent it died before it had written so."""
    blamed: int = 0
    """Items that are reported as having killed their process (none of them did)."""
    stuck: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Called, returned, and not in the ledger."""
    failed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    """Items that came out more than once."""
    two_posts: list[str] = field(default_factory=list)
    """Two Posts that both had an effect, or of which neither died."""
    not_continued: list[str] = field(default_factory=list)
    told_twice: list[str] = field(default_factory=list)
    """More notifications than thresholds."""

    @property
    def wrong(self) -> dict[str, list[str]]:
        """Return what is wrong, by name."""
        found = {name: getattr(self, name) for name in WRONGS}
        return {name: jobs for name, jobs in found.items() if jobs}

    def lines(self) -> list[str]:
        """Return the figures for people."""
        told = [
            (
                f"{self.jobs} jobs, {self.items} items, {self.begun_posts} Posts begun,"
                f" {self.continued_twice} jobs whose next step was sent twice,"
                f" {self.blamed} items blamed for a death"
            )
        ]
        return told + [
            f"  {name}: {len(jobs)}: {', '.join(jobs[:5])}"
            for name, jobs in self.wrong.items()
        ]


WRONGS = (
    *("stuck", "unknown", "failed", "lost", "doubled"),
    *("two_posts", "not_continued", "told_twice"),
)


def judge(dsn: str, *, groups: set[int], pids: set[int]) -> Verdict:
    """Return the verdict; `groups` and `pids` are those that were killed."""
    verdict = Verdict()
    told: dict[str, int] = {}
    for task_id, stage, outcome, value, error, items in ask(dsn, JOBS):
        verdict.jobs += 1
        verdict.items += items
        if stage != "ended":
            verdict.stuck.append(f"{task_id} ({stage})")
        elif outcome != "succeeded":
            verdict.failed.append(f"{task_id}: {error}")
        else:
            post = decode(value)
            told[task_id] = post["token"]
            _count(verdict, task_id, post, items)
    verdict.unknown = [task_id for (task_id,) in ask(dsn, UNKNOWN)]
    _posts(verdict, ask(dsn, POSTS), told, groups, pids)
    _next(verdict, ask(dsn, NEXT), told)
    most = round(1 / EVERY)
    for task_id, notes in ask(dsn, NOTES):
        if notes > most:
            verdict.told_twice.append(f"{task_id}: {notes}")
    return verdict


def _count(verdict: Verdict, task_id: str, post: dict[str, Any], items: int) -> None:
    seen = Counter(post["results"])
    for item, code in post["failed"]:
        seen[item] += 1
        bad = item % BAD == BAD - 1
        if code == DIED:
            verdict.blamed += 1
        elif not bad or code != FAILED:
            verdict.failed.append(f"{task_id}: item {item} with {code}")
    for item in range(items):
        if not seen[item]:
            verdict.lost.append(f"{task_id}: item {item}")
        elif seen[item] > 1:
            verdict.doubled.append(f"{task_id}: item {item}")


def _posts(
    verdict: Verdict,
    posts: list[Any],
    told: dict[str, int],
    groups: set[int],
    pids: set[int],
) -> None:
    by_job: dict[str, list[Any]] = {}
    for post in posts:
        by_job.setdefault(post[1], []).append(post)
    verdict.begun_posts = len(posts)
    for task_id, begun in by_job.items():
        living = [
            token
            for token, _, pid, group, _ in begun
            # who lost its main process was ended with the rest of it
            if pid not in pids and group not in groups | pids
        ]
        # another began only because who began before is dead
        effect = told.get(task_id, living[-1] if living else None)
        others = [token for token in living if token != effect]
        if others:
            verdict.two_posts.append(f"{task_id}: {others} beside {effect}: {begun}")


def _next(verdict: Verdict, following: list[Any], told: dict[str, int]) -> None:
    tokens: dict[str, Counter[int]] = {}
    for task_id, token, times in following:
        tokens.setdefault(task_id, Counter())[token] += times
    for task_id, token in told.items():
        came = tokens.get(task_id, Counter())
        if not came:
            verdict.not_continued.append(task_id)
        elif set(came) != {token}:
            verdict.two_posts.append(f"{task_id}: {[*came]} went on, told {token}")
        elif came[token] > 1:
            verdict.continued_twice += 1
