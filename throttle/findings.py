"""What is wrong at the gate, for the page *Now* and ``doctor``: in one look."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from celery import Celery

from celery_pecker.schedules.overview.verdicts import Explanation
from celery_pecker.surfaces.findings.broker import replies_of
from celery_pecker.surfaces.findings.model import Finding, fail, ok, warn
from celery_pecker.surfaces.findings.others import Finder
from celery_pecker.surfaces.views.phrases import duration, plural
from throttle.admission.costs import read
from throttle.errors import Misconfigured, ThrottleError
from throttle.overview import State, Status, judge, open_store
from throttle.settings import Settings
from throttle.views import amounts

if TYPE_CHECKING:
    from celery_pecker.surfaces.findings.project import Project

PAGE = "throttle"
NAMED = 3
"""Tasks that a sentence names."""


def examine(project: "Project") -> Iterator[Finding]:
    """Yield what is found; nothing where the app has no limits."""
    conf = project.app.conf
    if not conf.get("throttle_limits"):
        return
    try:
        settings = Settings.read(conf)
        with closing(open_store(settings)) as store:
            views = store.look()
            kept = {name: store.recall(name) for name in settings.limits}
    except Misconfigured as error:
        yield fail("throttle settings", str(error), "mend it, and restart workers")
        return
    except ThrottleError as error:
        policies = sorted({str(one.policy) for one in settings.limits.values()})
        yield fail(
            "throttle store",
            str(error),
            "see that it is reached from here; until then workers go by the policy of"
            f" each limit ({', '.join(policies)})",
            opens=PAGE,
        )
        return
    for status in judge(views, settings.limits, estimator=settings.estimator):
        yield _judged(status)
        free = [
            name
            for name, cost in read(kept.get(status.name, "")).items()
            if not cost.operations and not cost.seconds
        ]
        if free:
            yield warn(
                f"unmetered {status.name}",
                f"no meter counts what tasks do to {status.name!r}:"
                f" {', '.join(free[:NAMED])}{' …' if len(free) > NAMED else ''}",
                "count what the pool of their processes does, throttle.instrument, or"
                " let them name another database",
                opens=PAGE,
            )


def _judged(status: Status) -> Finding:
    """Judge how a database stands. Pure."""
    name = status.name
    chart = "history?" + urlencode({"of": "limit", "name": name, "since": "1h"})
    if status.state is State.OVER:
        return fail(
            f"limit {name}",
            f"{name!r} gets {status.used:.0%} of its limit, {amounts(status)}:"
            f" {'; '.join((status.summary, *status.notes))}",
            "see who brings it: what no gate holds back, or shadow mode",
            opens=chart,
        )
    if status.state is State.HOLDING:
        return warn(
            f"held tasks {name}",
            f"before {name!r}: {status.summary}",
            "the gate does what it is there for; where the database bears more: celery"
            f" -A proj throttle limit {name} OPERATIONS",
            opens=chart,
        )
    if status.state is State.UNGUARDED:
        return warn(
            f"limit {name}",
            f"{name!r}: {status.summary}",
            "start workers with this app",
            opens=PAGE,
        )
    return ok(f"limit {name}", f"{name!r}: {status.summary}")


def explain(app: Celery, task_id: str, statuses: Iterable[Status]) -> Explanation:
    """Return why a task waits before its database, asked of all workers."""
    replies = replies_of(app, "throttle_held", task_id=task_id)
    for worker, held in replies.items():
        if held and "database" in held:
            return explained(worker, held, statuses)
    asked = plural(len(replies), "worker")
    parked = sum(status.parked for status in statuses)
    return Explanation(
        "not_held" if replies else "unknown",
        f"none of the {asked} that answered holds it"
        if replies
        else "no worker answers",
        f"{plural(parked, 'task')} wait in parking queues of the broker, where none is"
        " looked for"
        if parked
        else None,
    )


def explained(
    worker: str, held: Mapping[str, Any], statuses: Iterable[Status]
) -> Explanation:
    """Return why a worker holds a task, as it answered. Pure."""
    name = held["database"]
    tenant = f", tenant {held['tenant']!r}" if held["tenant"] else ""
    if held["seconds"] is None:
        why = f"{worker} holds it for the rate_limit of {held['task']}"
        return Explanation("rate_limited", why, facts=[f"before {name!r}{tenant}"])
    behind = plural(held["ahead"], "older task")
    why = (
        f"{worker} has held it for {duration(held['seconds'])} before {name!r}{tenant},"
        f" behind {behind}"
    )
    for status in statuses:
        if status.name == name:
            finding = _judged(status)
            facts = [finding.text, *status.notes]
            return Explanation("held", why, finding.advice, facts)
    return Explanation("held", why)


FINDER = Finder(examine, in_tables=False)
