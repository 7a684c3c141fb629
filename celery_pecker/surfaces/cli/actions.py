"""``pecker run``, ``pause``, ``resume``: what people do to an entry."""

import click
from celery.backends.base import DisabledBackend

from celery_pecker.kernel.audit import current_user
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.clock import pause as sleep
from celery_pecker.schedules.engine.model import task_id
from celery_pecker.surfaces.cli.context import NO, UNKNOWN, Context, instant, number
from celery_pecker.surfaces.console.database_context import acting
from celery_pecker.surfaces.console.exits import interrupted
from celery_pecker.surfaces.findings.timeouts import bounded
from celery_pecker.surfaces.views.schedules import PAUSE, RESUME, RUN, SLOTS

LOOK = 0.2
"""Seconds between two looks at what became of a run."""
GOOD = {"succeeded", "published"}
WRONG = {"bad", "missed", "refused"}
"""Shapes of states in which no run comes any more."""
BAD = {one for one, shape in SLOTS.states.items() if shape in WRONG}
BAD.remove("refused_repeated")  # the run that was there before may end well


@Context.command()
@click.argument("name")
@acting("schedules pause")
def pause(context: Context, *, name: str) -> None:
    """Let an entry's slots pass without a run, until it is resumed."""
    context.schedules.pause(name, by=current_user())
    if not context.print_json({"name": name, "paused": True}):
        click.echo(PAUSE.said(name))


@Context.command()
@click.argument("name")
@acting("schedules resume")
def resume(context: Context, *, name: str) -> None:
    """Let an entry's slots run again; what passed meanwhile is not made up for."""
    context.schedules.resume(name, by=current_user())
    if not context.print_json({"name": name, "paused": False}):
        click.echo(RESUME.said(name))


@Context.command()
@click.argument("name")
@click.option("--wait", is_flag=True, help="Wait until it has run.")
@number("--timeout", 0.1, 86_400.0, "With --wait: seconds.", 60.0)
@acting("schedules run")
def run(context: Context, *, name: str, wait: bool, timeout: float) -> None:
    """Ask for a run of an entry now, beside its slots.

    A scheduler that declares it takes it within seconds, under the entry's own policy:
    with a timeout, when the run before must have ended. Asked again while one waits,
    it is the one that waits.
    """
    due_us = context.overview.request_run(name, by=current_user())
    id_ = _task_id(context, name, due_us)
    document: dict[str, object] = {
        "name": name,
        "due": instant(due_us),
        "task_id": id_,
    }
    if not wait:
        if not context.print_json({**document, "state": "asked"}):
            click.echo(f"{RUN.said(name)} Task id {id_}")
        return
    with interrupted(UNKNOWN):
        state = _wait(context, name, due_us, id_, timeout)
    if not context.print_json({**document, "state": state}):
        click.echo(f"{name!r}: {state}, task id {id_}")
    if state in BAD:
        context.leave(NO)
    if state not in GOOD:
        context.leave(UNKNOWN)


def _wait(context: Context, name: str, due_us: int, id_: str, timeout: float) -> str:
    """Return what became of the run, as far as it is known in time."""
    until = SYSTEM.monotonic() + timeout
    while True:
        detail = context.overview.entry(name, limit=60)
        slots = () if detail is None else detail.slots
        state = next((one.state for one in slots if one.due_us == due_us), "asked")
        if state in BAD or state == "succeeded":
            return state
        left = until - SYSTEM.monotonic()
        unkept = context.app.conf.task_ignore_result
        unkept = unkept or isinstance(context.app.backend, DisabledBackend)
        if state == "published" and unkept:
            return state
        if state == "published":
            result = bounded(max(left, LOOK), _result, context, id_, max(left, LOOK))
            return result or "published_no_result"
        if left <= 0:
            return state if state != "asked" else "waiting"
        sleep(min(LOOK, left))


def _result(context: Context, id_: str, timeout: float) -> str:
    result = context.app.AsyncResult(id_)
    result.get(timeout=timeout, propagate=False)
    return "succeeded" if result.successful() else "failed"


def _task_id(context: Context, name: str, due_us: int) -> str:
    detail = context.overview.entry(name, limit=0)
    era = 0
    if detail is not None:
        eras = [one.era for one in detail.pending if one.due_us == due_us]
        era = eras[0] if eras else detail.row.era
    return task_id(context.settings.schema, name, due_us, era)
