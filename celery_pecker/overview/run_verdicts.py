"""What is wrong with the runs of an entry, by what became of them. Pure."""

from __future__ import annotations

from celery_pecker.overview.model import BadEnd, EntryRow
from celery_pecker.overview.slot_verdicts import At
from celery_pecker.overview.verdicts import REPORTED, Answer


def failing(row: EntryRow, bad: BadEnd, at: At) -> Answer:
    """Return what the entry fails with: its last slot, or one within a minute."""
    _, why, advice = REPORTED.get(bad.state, (bad.state, "its slot of {due}", None))
    if bad.state == "failed_to_send" and bad.error:
        why = "a message for its slot of {due} was refused and not sent"
    words = {"due": at(bad.due_us), "when": at(bad.at_us), "late": ""}
    error = f": {bad.error}" if bad.error else ""
    host = f", reported by {bad.host}" if bad.host else ""
    runs = ", ".join(
        f"{count} {ended.replace('_', ' ')}"
        for ended, count in row.outcomes.counts.items()
        if count and ended != "published"
    )
    return Answer(
        verdict="failing",
        why=f"{why.format(**words)}{error}{host}",
        advice=advice.format(**words) if advice else None,
        facts=[f"so far: {runs}"],
    )


def unreported(row: EntryRow, since_us: int, at: At) -> Answer:
    """Return what has no report, and where to look."""
    counts = row.outcomes.counts
    ended = sum(counts.values()) - counts["published"] - counts["not_sent"]
    return Answer(
        verdict="unreported",
        why="what was sent of it should have begun by"
        f" {at(since_us)}, and no worker reports of it: it waits in its queue, or its"
        " worker died, or runs without pecker_dsn",
        advice=REPORTED["published"][2],
        facts=[f"so far: {counts['published']} published, {ended} reported by workers"],
    )
