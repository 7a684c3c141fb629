"""``pecker health``: questions for probes and alarms."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict

import click
from celery.bin.base import CeleryCommand

from celery_pecker import heartbeat
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.lease import SECOND
from celery_pecker.observers.model import Place
from celery_pecker.observers.overview import ObserversOverview, ObserversSummary
from celery_pecker.schedules.overview import Totals
from celery_pecker.schedules.overview.slot_verdicts import (
    able,
    alive,
    count_of_schedulers,
    differing,
)
from celery_pecker.surfaces.cli.context import NO, Context, as_json, number
from celery_pecker.surfaces.findings.pace import overdue, undelivered
from celery_pecker.surfaces.views.observers import not_sent
from celery_pecker.surfaces.views.phrases import duration, span

Answer = tuple[object, bool | PeckerError, Iterable[str]]
"""What was seen, for programs; whether that is healthy, or why it is not known; and
lines for people."""
TWICE = "differently, and send them by each of their schedules"


@click.command(cls=CeleryCommand)
@click.option("--live", is_flag=True, help="Does every scheduler of this host turn?")
@click.option("--pace", is_flag=True, help="Was every due entry won and sent?")
@click.option("--runs", is_flag=True, help="Do the runs of every entry end well?")
@click.option("--outbox", is_flag=True, help="Is what is recorded delivered in time?")
@click.option(
    "--observers", is_flag=True, help="Is every observer run, and none parked?"
)
@number(
    "--within",
    0.0,
    86_400.0,
    "With --pace, --outbox, --observers: seconds by which one may be late.",
    10.0,
)
@as_json
@click.pass_context
def health(
    ctx: click.Context, /, *, within: float, json: bool, **questions: bool
) -> None:
    """Answer a probe by the exit code: 0 healthy, 1 not healthy, 3 unknown.

    --live asks neither database nor broker; the others ask the database.
    """
    if not any(questions.values()):
        raise click.UsageError(
            "ask --live, --pace, --runs, --outbox or --observers, or several"
        )
    with Context.open(ctx, json=json) as context:
        document: dict[str, object] = {}
        healthy = True
        for name, answer in ANSWERS.items():
            if not questions[name]:
                continue
            document[name], good, lines = answer(context, within)
            if not context.json:
                for line in lines:
                    click.echo(line)
            if isinstance(good, PeckerError):
                context.print_json({"healthy": None, **document})
                raise good
            healthy &= good
        context.print_json({"healthy": healthy, **document})
        if not healthy:
            context.leave(NO)


def _live(context: Context, _within: float) -> Answer:
    try:
        lives = heartbeat.live_schedulers(context.settings, clock=SYSTEM)
    except PermissionError as error:
        raise click.ClickException(str(error)) from error
    turn = bool(lives) and not any(life.stale for life in lives)
    lines = heartbeat.described(lives, heartbeat.folder(context.settings))
    return [asdict(life) for life in lives], turn, lines


def _pace(context: Context, within: float) -> Answer:
    within_us = round(within * SECOND)
    entries = context.declared
    now_us, rows = context.project.rows([*entries])
    late = overdue(entries, rows, now_us, within_us)
    there = context.overview.totals(overdue_after=within_us / SECOND)
    count = max(len(entries), there.declared)  # stored ones are in the tables alone
    replicas = context.overview.replicas()
    unclaimed = sum(not able(replicas, one.policy.run) for one in entries.values())
    unclaimed = max(unclaimed, there.unclaimed)
    both = differing(replicas)
    kept = not late and not unclaimed and not both and there.keeps_up
    document = {
        "kept": kept,
        "entries": count,
        "overdue": max(len(late), there.overdue),
        "worst": [asdict(one) for one in late[:10]],
        "undelivered": there.undelivered,
        "stuck": there.stuck,
        "unclaimed": unclaimed,
        "differing": both,
        "failing": there.failing,
        "unreported": there.unreported,
        "schedulers": len(alive(replicas)),
        "now_us": now_us,
    }
    lines: Iterable[str]
    if kept:
        lines = _kept(count, there)
    elif late:
        worst = f"{late[0].words}; {count_of_schedulers(replicas)}"
        lines = [f"{len(late)} of {len(entries)} entries are overdue; {worst}"]
    elif there.overdue:
        worst = f"{there.worst!r} for {span(there.worst_us)}"
        others = f"{there.overdue} entries that other code declares are overdue"
        lines = [f"{others}, {worst}"]
    elif unclaimed:
        why = f"no live scheduler claims them; {count_of_schedulers(replicas)}"
        lines = [f"{unclaimed} of {count} entries: {why}"]
    elif both and there.keeps_up:
        lines = [f"schedulers declare {len(both)} entries {TWICE}: {both[0]!r}"]
    else:
        lines = _not_sent(context, there)
    return document, kept, lines


def _kept(count: int, pace: Totals) -> Iterator[str]:
    yield f"{count} entries, every due one was won"
    if pace.failing:
        yield f"{pace.failing} of them fail: ask --runs"
    if pace.unreported:
        yield f"of {pace.unreported} no worker reports: ask --runs"


def _not_sent(context: Context, pace: Totals) -> Iterator[str]:
    """Say what was claimed and has no message."""
    if pace.stuck:
        yield f"{pace.stuck} slots were claimed and the broker has not confirmed"
    if pace.undelivered:
        failing = context.overview.failing().items()
        names = ", ".join(repr(name) for name, one in failing if one.undelivered)
        yield f"{pace.undelivered} entries are claimed and not sent: {names}"


def _runs(context: Context, _within: float) -> Answer:
    """Ask whether runs end well: by what workers and schedulers reported."""
    totals, worst = context.overview.totals(), context.overview.failing()
    bad = totals.failing + totals.unreported
    document = {
        "failing": totals.failing,
        "unreported": totals.unreported,
        "counts": totals.counts,
        "worst": [{"name": name, **asdict(one)} for name, one in worst.items()],
    }

    def lines() -> Iterator[str]:
        for name, one in worst.items():
            if one.unreported_us is not None and not one.failing:
                since = context.at(one.unreported_us)
                yield f"{name!r}: no worker reports of what should begin by {since}"
            elif one.bad is not None:
                why = f": {one.bad.error}" if one.bad.error else ""
                state = one.bad.state.replace("_", " ")
                yield f"{name!r} {state} at {context.at(one.bad.due_us)}{why}"
        if bad > len(worst):
            yield f"and {bad - len(worst)} more"
        if not bad:
            yield f"{totals.declared} entries, no run ended badly lately"

    return document, not bad, lines()


def _outbox(context: Context, within: float) -> Answer:
    """Ask whether each outbox of the app is delivered, and say how deep it is."""
    document: dict[str, object] = {}
    healthy, silent, lines = True, None, []
    for name, answer in context.project.summaries().items():
        if isinstance(answer, PeckerError):
            silent = silent or answer
            document[name], line = {"error": str(answer)}, f"unknown: {answer}"
        else:
            why = undelivered(answer, within)
            healthy &= why is None
            least = "about " if answer.more else ""
            document[name], line = answer, f"{least}{answer.depth} due{why or ''}"
        lines.append(f"outbox {name}: {line}")
    return document, silent if silent and healthy else healthy, lines


def _observers(context: Context, within: float) -> Answer:
    """Ask whether a host runs each observer; a parked one needs people."""
    summary = ObserversOverview(context.database).summary()
    why = not_run(summary, within)
    document = {
        "run": why is None,
        "why": why,
        "hosts": len(summary.taking),
        "capacity": summary.capacity,
        "free": summary.free,
        "oldest_waiting": summary.oldest_waiting,
        "unsent": summary.unsent,
        "kinds": summary.kinds,
    }
    room = (
        f"{summary.free} of {summary.capacity} weights free on"
        f" {len(summary.taking)} of {len(summary.hosts)} hosts"
    )
    return document, why is None, [f"observers: {why or room}"]


def not_run(summary: ObserversSummary, within: float) -> str | None:
    """Return what is wrong; None: all are run, and what is to be sent is sent. Pure."""
    parked, waited = summary.count(Place.PARKED), summary.oldest_waiting
    reasons = []
    if waited is not None and waited > within:
        room = "no host takes any" if not summary.taking else f"{summary.free} free"
        waiting = summary.count(Place.WAITING)
        reasons.append(f"{waiting} waiting, the oldest for {duration(waited)}; {room}")
    if parked:
        reasons.append(f"{parked} parked: ask pecker observers --place parked")
    unsent = summary.unsent
    if unsent.oldest is not None and unsent.oldest > within:
        reasons.append(not_sent(summary))
    return "; ".join(reasons) or None


ANSWERS: Mapping[str, Callable[[Context, float], Answer]] = {
    "live": _live,
    "pace": _pace,
    "runs": _runs,
    "outbox": _outbox,
    "observers": _observers,
}
"""What answers each question."""
