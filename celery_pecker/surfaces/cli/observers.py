"""``pecker observers``: hosts with their load, what runs where, what is parked."""

import json as jsons
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from celery_pecker.kernel.app_modules import load_app
from celery_pecker.observers import operations
from celery_pecker.observers.app import observers_of
from celery_pecker.observers.kind import Observer
from celery_pecker.observers.model import Answer, NodeRow, ObserverRow
from celery_pecker.observers.overview import (
    ObserversOverview,
    ObserversSummary,
    Which,
)
from celery_pecker.surfaces.cli.context import NO, Context, limited
from celery_pecker.surfaces.console import instants
from celery_pecker.surfaces.console.database_context import acting
from celery_pecker.surfaces.console.rendering import filters, print_figures, print_table
from celery_pecker.surfaces.views.model import Query
from celery_pecker.surfaces.views.observers import (
    EVENTS_TABLE,
    HOSTS_TABLE,
    KINDS,
    OBSERVERS,
    OBSERVERS_TABLE,
    RESTARTS,
    STOPS,
    chosen,
    masked,
    not_sent,
)
from celery_pecker.surfaces.views.observers import explain as why
from celery_pecker.surfaces.views.phrases import duration

WIDE = 10
"""Letters of the bar that shows how full a host is."""


@Context.group
@filters(OBSERVERS_TABLE)
@limited
def observers(context: Context, /, *, query: Query, limit: int) -> None:
    """Show hosts with their load, and observers: those that need a look first."""
    overview = ObserversOverview(context.database)
    summary, which = overview.summary(), chosen(query)
    _require(overview, summary, which)
    page = overview.page(which, limit=limit)
    hosts = [one for one in summary.hosts if which.node in {None, one.name, one.node}]
    if context.print_json(
        {
            "hosts": hosts,
            "capacity": summary.capacity,
            "held": summary.held,
            "kinds": summary.kinds,
            "oldest_waiting": summary.oldest_waiting,
            "unsent": summary.unsent,
            "observers": [masked(one, context.database) for one in page.rows],
            "total": page.total,
        }
    ):
        return
    print_figures(context, OBSERVERS, summary)
    if warning := not_sent(summary):
        click.echo(warning)
    cells = {"load": _load, "lease": _lease}
    print_table(context, HOSTS_TABLE, hosts, without=("capacity",), by_hand=cells)
    print_table(context, KINDS, summary.kinds)
    print_table(context, OBSERVERS_TABLE, page.rows)
    if page.total > len(page.rows):
        click.echo(f"and {page.total - len(page.rows)} more: --limit, --kind, …")


@Context.command(group=observers)
@click.argument("name")
@limited
def show(context: Context, /, *, name: str, limit: int) -> None:
    """Show one observer and its life: what happened to it, newest first."""
    overview = ObserversOverview(context.database)
    row = masked(_one(overview, name), context.database)
    events = overview.history(name, limit=limit)
    if context.print_json({"observer": row, "history": events}):
        return
    print_table(context, OBSERVERS_TABLE, [row])
    for label, value in (
        ("arguments", row.args),
        ("cursor", row.state),
        ("status", f"{row.status}, epoch {row.epoch}"),
        ("created", instants.for_people(row.created_at, context.zone)),
    ):
        context.print("", f"{label}: {value}")
    print_table(context, EVENTS_TABLE, events)


@Context.command(group=observers)
@click.argument("name")
def explain(context: Context, /, *, name: str) -> None:
    """Show why an observer runs or does not."""
    overview = ObserversOverview(context.database)
    reply = why(context.database, _one(overview, name), overview.hosts())
    context.print_verdict(reply, name)


def _one(overview: ObserversOverview, name: str) -> ObserverRow:
    row = overview.get(name)
    if row is None:
        raise click.ClickException(f"there is no observer {name!r}")
    return row


def bar(load: int, capacity: int) -> str:
    """Return how full a host is. Pure."""
    full = min(round(WIDE * load / capacity), WIDE)
    if load and not full:
        full = 1  # what holds anything does not look empty
    return "█" * full + "░" * (WIDE - full)


def _load(host: NodeRow) -> str:
    return f"{bar(host.load, host.capacity)}  {host.load} of {host.capacity}"


def _lease(host: NodeRow) -> str:
    return duration(host.lease) if host.lease > 0 else "over"


def _require(
    overview: ObserversOverview, summary: ObserversSummary, which: Which
) -> None:
    """Raise a usage error for a host or observer that does not exist."""
    kind, node = which.kind, which.node
    hosts = sorted({one.name for one in summary.hosts})
    if node is not None and node not in {*hosts, *(one.node for one in summary.hosts)}:
        refuse_unknown("--node", node, "there are", hosts)
    kinds = {one.kind for one in summary.kinds}
    if kind is not None and kind not in kinds:
        kinds.update(overview.known_kinds())
        if kind not in kinds:
            refuse_unknown("--kind", kind, "known are", sorted(kinds))


def refuse_unknown(
    option: str, value: str, verb: str, allowed: Sequence[str]
) -> NoReturn:
    """End with the names that there are."""
    names = ", ".join(map(repr, allowed)) or "none"
    raise click.ClickException(f"{option} {value!r}: {verb} {names}")


__all__ = ["observers"]

GONE = {
    Answer.ALREADY_DELETED: "{what} has ended already",
    Answer.NOT_FOUND: "there is no observer {what!r}",
}


@Context.command(group=observers)
@click.argument("kind")
@click.argument("name")
@click.option("--args", default="{}", help="Arguments by name, as a JSON object.")
@click.option("--weight", type=int, help="Default as the kind was declared.")
@click.option("--refuse", is_flag=True, help="Where no host has room: do not wait.")
@acting("observers start", "name", "kind")
def start(
    context: Context, /, *, kind: str, name: str, args: str, **options: Any
) -> None:
    """Start an observer of a kind; a host takes it."""
    arguments = _object(args)
    number = operations.start(
        *(context.database, kind, name, arguments),
        **options,
        known=_declared(context, kind),
    )
    if not context.print_json({"name": name, "id": number}):
        click.echo(f"{name!r} is recorded: a host takes it")


@Context.command(group=observers)
@click.argument("name")
@acting("observers stop")
def stop(context: Context, /, *, name: str) -> None:
    """Ask for the end of an observer."""
    _tell(context, name, operations.stop(context.database, name), STOPS)


@Context.command(group=observers)
@click.argument("name")
@acting("observers restart")
def restart(context: Context, /, *, name: str) -> None:
    """End the life of an observer and begin another; a parked one begins again."""
    _tell(context, name, operations.restart(context.database, name), RESTARTS)


@Context.command(group=observers)
@click.argument("node")
@acting("observers drain", "node")
def drain(context: Context, /, *, node: str) -> None:
    """Have a host, by name or id, hand over what it holds and take nothing more."""
    _ordered(context, node, operations.drain(context.database, node), "drain")


@Context.command(group=observers)
@click.argument("node")
@acting("observers undrain", "node")
def undrain(context: Context, /, *, node: str) -> None:
    """Let a host that was drained, by name or id, take observers again."""
    count = operations.undrain(context.database, node)
    _ordered(context, node, count, "undrain")


def _object(text: str) -> dict[str, Any]:
    try:
        read = jsons.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--args {text!r} is no JSON: {error}") from error
    if not isinstance(read, dict):
        raise click.UsageError(
            f'--args {text!r}: allowed is a JSON object, as {{"symbol": "BTC"}}'
        )
    return read


def _declared(context: Context, kind: str) -> Observer | None:
    """Return the kind where the app's own code declares it."""
    load_app(context.app)
    known = observers_of(context.app)
    return None if known is None else known.kinds.get(kind)


def _tell(
    context: Context, name: str, answer: Answer, done: Mapping[Answer, str]
) -> None:
    """Print an answer; one that says of nothing that it is done leaves with NO."""
    if not context.print_json({"name": name, "answer": answer}):
        click.echo({**STOPS, **GONE, **done}[answer].format(what=name))
    if answer not in done:
        context.leave(NO)


def _ordered(context: Context, node: str, count: int, act: str) -> None:
    if not count:
        hosts = sorted(
            {one.name for one in ObserversOverview(context.database).hosts()}
        )
        refuse_unknown("NODE", node, "there are", hosts)
    if not context.print_json({"node": node, "hosts": count}):
        click.echo(OBSERVERS.said(act, node))
