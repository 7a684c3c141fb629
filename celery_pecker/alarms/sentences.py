"""What is wrong, in a sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from celery_pecker.alarms.model import Finding, Kind, Rule

LONGEST = 500
"""Characters of a sentence."""
NAMED = 5
"""How many subjects of a storm are named."""
CODES = {
    401: "ready, and no worker claims them",
    402: "claimed, and not begun",
    403: "claimed by a worker that is gone",
}
_SENTENCES: Mapping[Kind, str] = {
    Kind.SILENT: "no slot of it was won for {length} since it was due",
    Kind.HELD: "the gate holds back a slot of it that was due {length} ago",
    Kind.FAILING: "its last slot was not sent, or its last run ended badly{text}",
    Kind.UNREPORTED: "what was sent of it should have begun {length} ago, and no worker"
    " reports of it",
    Kind.MISFIRE: "{count} of its slots passed without a run within {within}",
    Kind.OVERTAKEN: "{count} of its runs were overtaken by newer ones within {within}",
    Kind.JOB_FAILED: "the job has failed{text}",
    Kind.JOB_LATE: "submitted {length} ago, it has not ended: it is {text}",
    Kind.OUTBOX_PARKED: "{count} recorded tasks are parked{text}",
    Kind.OBSERVER_PARKED: "it is parked after {count} failures{text}",
    Kind.OBSERVER_HOST: "the host of observers stopped without a goodbye; {count}"
    " observers are still with it",
    Kind.OBSERVER_NOTICES: "its signature was tried {count} times and not sent{text}",
    Kind.SHUT: "the gate lets nothing through to it",
}


def sentence(rule: Rule, finding: Finding) -> str:
    """Return what a person reads of it."""
    return _cut(_text(rule, finding).replace("\0", ""))


def storm(subjects: Sequence[str], detail: str) -> str:
    """Return what a person reads of many at once: how many, and the first of them."""
    named = ", ".join(subjects[:NAMED])
    more = len(subjects) - NAMED
    text = f"{len(subjects)} at once: {named}"
    if more > 0:
        text += f" and {more} more (`celery pecker alarms` lists them)"
    return _cut(f"{text}; of the first: {detail}")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _text(rule: Rule, finding: Finding) -> str:
    if rule.kind is Kind.OVERRUN:
        if finding.since is not None:
            return f"a run of it has been in hand for {length(finding.number)}"
        within = length(rule.terms.within)
        return f"{finding.number:.0f} of its runs overran their timeout within {within}"
    if rule.kind is Kind.CLOCK:
        return finding.detail or "the clock of the database has stepped: an era rose"
    if rule.kind is Kind.JOB_HANGS:
        code = int(finding.number)
        return f"{finding.detail} of its shards are {CODES[code]} ({code})"
    colon = rule.kind is not Kind.JOB_LATE and finding.detail
    return _SENTENCES[rule.kind].format(
        count=f"{finding.number:.0f}",
        length=length(finding.number),
        within=length(rule.terms.within),
        text=f": {finding.detail}" if colon else finding.detail,
    )


def length(seconds: float) -> str:
    """Return a length of time."""
    for below, unit, name in ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h")):
        if seconds < below:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.0f} days"
