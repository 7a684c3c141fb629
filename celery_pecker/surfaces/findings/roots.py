"""Which finding follows from which. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from celery_pecker.surfaces.findings.model import Finding, Grade

STANDS = ("overdue", "unclaimed", "unsent", "outbox")
"""What is not won, not sent or not delivered while one of the roots below is there."""
UNRUN = ("unreported", "jobs wait", "jobs untaken")
"""What was sent, and nobody runs."""
RUNS = ("failing", "jobs failed", "observers parked")
ROOTS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("locks", ("held snapshots", "database", *STANDS)),
    ("settings", ("declarations", *STANDS)),
    ("database", ("outbox",)),
    ("schema", ("rights", "owner", "table", *STANDS, *UNRUN)),
    ("rights", (*STANDS, *UNRUN)),
    ("owner", ("schedulers", *STANDS)),
    ("broker", ("workers", "observers unsent", *STANDS, *UNRUN, *RUNS)),
    ("redis writes", ("workers", "observers unsent", *STANDS, *UNRUN, *RUNS)),
    ("schedulers", STANDS),
    ("clock", ("overdue", *UNRUN, "failing")),
    ("workers", UNRUN),
    ("queue", UNRUN),
    ("task", (*UNRUN, "failing")),
    ("observers hosts", ("observers waiting",)),
    ("held snapshots", ("table",)),
    ("unsent", ("overdue",)),
)
"""Causes, the deepest first, and what each of them makes wrong."""


HINTS = ("workers", "held snapshots")
"""What is only worth a look until something follows from it."""


def rooted(findings: Iterable[Finding]) -> list[Finding]:
    """Return what is wrong: causes first, each with what follows from it.

    A finding that several causes may have stands under the deepest of them, once. What
    nothing explains stands behind them, and what is only worth a look last.
    """
    left = [one for one in findings if one.grade is not Grade.OK]
    roots: list[Finding] = []
    for name, follows in ROOTS:
        for cause in [one for one in left if one.check.startswith(name)]:
            after = [
                one
                for one in left
                if one.check.startswith(follows) and not one.check.startswith(name)
            ]
            hint = cause.check in HINTS and after
            if cause.grade is Grade.FAIL or hint:
                roots.append(
                    replace(cause, grade=Grade.FAIL, consequences=tuple(after))
                )
                left = [one for one in left if one is not cause and one not in after]
    return [*roots, *sorted(left, key=lambda one: one.grade is not Grade.FAIL)]
