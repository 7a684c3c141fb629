"""``throttle check``: what a worker would say at its start."""

import json as jsons
from collections.abc import Callable, Sequence
from typing import Any

import click
from celery import Celery
from rich.text import Text

from celery_pecker.kernel.app_modules import load_app
from celery_pecker.surfaces.console.rendering import visible
from celery_pecker.surfaces.views.phrases import plural
from throttle.cli.context import NO, UNKNOWN, Context
from throttle.errors import StoreUnavailable, ThrottleError
from throttle.model import Limit
from throttle.overview import where
from throttle.route import Route, load
from throttle.settings import Settings
from throttle.worker.starting import check_tasks

MARKS = {"ok": ("✓", "green"), "fail": ("✗", "bold red"), "unknown": ("?", "yellow")}


@Context.command()
@click.option("--task", help="Where would this task go? Its name.")
@click.option("--args", "arguments", default="[]", help="With --task: a JSON list.")
@click.option("--kwargs", default="{}", help="With --task: a JSON object.")
def check(context: Context, *, task: str | None, arguments: str, kwargs: str) -> None:
    """Return whether a worker of this app would start, and where tasks would go.

    Ends with 0 if it would, 1 if something must be mended, 3 if Redis (or the service)
    gave no answer. Nothing is changed.
    """
    parsed = (_parsed("--args", arguments, list), _parsed("--kwargs", kwargs, dict))
    app, settings = context.app, context.settings
    findings = [
        _looked_at("limits", lambda: _limits(settings)),
        _looked_at("counted at", lambda: _store(context)),
        _looked_at("route", lambda: _route(settings)),
        _looked_at("tasks", lambda: _tasks(app, settings)),
    ]
    if task is not None:
        found = _looked_at("task", lambda: _task(app, settings, task, *parsed))
        findings.append(found)
    if not context.print_json(findings):
        for finding in findings:
            _print(context, finding)
    verdicts = {finding["verdict"] for finding in findings}
    if "fail" in verdicts:
        context.leave(NO)
    if "unknown" in verdicts:
        context.leave(UNKNOWN)


def _parsed(option: str, text: str, kind: type) -> Any:
    try:
        value = jsons.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{option} is no JSON: {error}") from error
    if not isinstance(value, kind):
        raise click.BadParameter(
            f"{option} must be a JSON {'list' if kind is list else 'object'}"
        )
    return value


def _looked_at(what: str, look: Callable[[], Sequence[str]]) -> dict[str, Any]:
    """Return what a look told, the first line before the others, or raised.

    Its verdict is ``ok``, ``fail``, or ``unknown``: a server gave no answer.
    """
    try:
        (message, *more), verdict = look(), "ok"
    except ThrottleError as error:
        away = isinstance(error, StoreUnavailable)
        message, more, verdict = str(error), [], "unknown" if away else "fail"
    return {"what": what, "verdict": verdict, "message": message, "more": more}


def _limits(settings: Settings) -> Sequence[str]:
    if not settings.limits:
        raise ThrottleError(
            "throttle_limits is not set: nothing is held; {'main': 5000} is a limit"
        )
    known = plural(len(settings.limits), "database")
    return (
        f"{known}, computed by the {settings.estimator} estimator",
        *(_limit(limit) for limit in settings.limits.values()),
    )


def _limit(limit: Limit) -> str:
    parts = [f"{limit.operations:,.0f} operations/s"]
    if limit.seconds is not None:
        parts.append(f"{limit.seconds:g} busy connections")
    parts.append(f"{limit.policy} while there is no answer")
    if limit.shadow:
        parts.append("shadow: nothing is held")
    if limit.tenants:
        parts.append(f"weights of {plural(len(limit.tenants), 'tenant')}")
    if limit.watch:
        parts.append("with a second signal")
    if limit.queues:
        parts.append(f"alone on {', '.join(sorted(limit.queues))}")
    return f"{limit.database}: {', '.join(parts)}"


def _store(context: Context) -> Sequence[str]:
    context.store.check()
    known = context.store.look()
    holders = {holder for view in known.values() for holder in view.holders}
    there = plural(len(holders), "worker")
    return [f"{where(context.settings)} answers; {there} there now"]


def _route(settings: Settings) -> Sequence[str]:
    if settings.route is None:
        return ["none; a task is held if it says so itself: throttle='main'"]
    load(settings.route)
    return [f"{settings.route} can be called"]


def _tasks(app: Celery, settings: Settings) -> Sequence[str]:
    load_app(app)
    check_tasks(app.tasks, settings)
    named = sum(
        getattr(one, "throttle", None) is not None for one in app.tasks.values()
    )
    if not named and settings.route is None:
        return ["none has an option throttle=…, and there is no route: nothing is held"]
    return [f"{plural(named, 'task')} with an option throttle=…"]


def _task(
    app: Celery,
    settings: Settings,
    name: str,
    args: list[object],
    kwargs: dict[str, object],
) -> Sequence[str]:
    known = app.tasks.get(name)
    if known is None:
        raise ThrottleError(f"this app has no task {name!r}")
    route = Route(load(settings.route), settings.limits)
    option = getattr(known, "throttle", None)
    target = route.target(name, args, kwargs, {}, option=option)
    if route.failures:
        raise ThrottleError(
            f"the route fails for {name!r}, see above: such a task would pass"
        )
    if target is None:
        return [f"{name} passes: neither its option nor the route names a database"]
    tenant = f", tenant {target.tenant!r}" if target.tenant else ""
    return [f"{name} goes to {target.database!r}{tenant}"]


def _print(context: Context, found: dict[str, Any]) -> None:
    mark, style = MARKS[found["verdict"]]
    line = Text.assemble((f"{mark} ", style), (f"{found['what']}: ", "bold"))
    context.console.print(line + Text(visible(found["message"])))
    for one in found["more"]:
        context.console.print(Text(f"    {visible(one)}"))
