"""``pecker observers start`` and so on: what people do to observers and hosts."""

from __future__ import annotations

import json as jsons
from typing import Any

import click
from celery.bin.base import CeleryCommand

from celery_pecker.kernel.app_modules import load_app
from celery_pecker.observers import operations
from celery_pecker.observers.app import observers_of
from celery_pecker.observers.kind import Observer
from celery_pecker.observers.model import Answer
from celery_pecker.observers.overview import ObserversOverview
from celery_pecker.surfaces.cli.context import NO, Context, as_json
from celery_pecker.surfaces.cli.observers import observers, refuse_unknown
from celery_pecker.surfaces.console.database_context import acting
from celery_pecker.surfaces.views.observers import OBSERVERS, RESTARTS, STOPS

__all__ = ["observers"]

GONE = {
    Answer.ALREADY_DELETED: "{what} has ended already",
    Answer.NOT_FOUND: "there is no observer {what!r}",
}


@observers.command(cls=CeleryCommand)
@click.argument("kind")
@click.argument("name")
@click.option("--args", default="{}", help="Arguments by name, as a JSON object.")
@click.option("--weight", type=int, help="Default as the kind was declared.")
@click.option("--refuse", is_flag=True, help="Where no host has room: do not wait.")
@as_json
@Context.opened
@acting("observers start", "name", "kind")
def start(  # all options of one
    context: Context,
    /,
    *,
    kind: str,
    name: str,
    args: str,
    weight: int | None,
    refuse: bool,
) -> None:
    """Start an observer of a kind; a host takes it."""
    arguments = _object(args)
    number = operations.start(
        *(context.database, kind, name, arguments),
        weight=weight,
        refuse=refuse,
        known=_declared(context, kind),
    )
    if not context.print_json({"name": name, "id": number}):
        click.echo(f"{name!r} is recorded: a host takes it")


@observers.command(cls=CeleryCommand)
@click.argument("name")
@as_json
@Context.opened
@acting("observers stop")
def stop(context: Context, /, *, name: str) -> None:
    """Ask for the end of an observer."""
    answer = operations.stop(context.database, name)
    _tell(context, name, answer, {**STOPS, **GONE})
    if answer in GONE:
        context.leave(NO)


@observers.command(cls=CeleryCommand)
@click.argument("name")
@as_json
@Context.opened
@acting("observers restart")
def restart(context: Context, /, *, name: str) -> None:
    """End the life of an observer and begin another; a parked one begins again."""
    answer = operations.restart(context.database, name)
    _tell(context, name, answer, {**STOPS, **RESTARTS, **GONE})
    if answer is not Answer.ASKED:
        context.leave(NO)


@observers.command(cls=CeleryCommand)
@click.argument("node")
@as_json
@Context.opened
@acting("observers drain", "node")
def drain(context: Context, /, *, node: str) -> None:
    """Have a host, by name or id, hand over what it holds and take nothing more."""
    _ordered(context, node, operations.drain(context.database, node), "drain")


@observers.command(cls=CeleryCommand)
@click.argument("node")
@as_json
@Context.opened
@acting("observers undrain", "node")
def undrain(context: Context, /, *, node: str) -> None:
    """Let a host that was drained, by name or id, take observers again."""
    count = operations.undrain(context.database, node)
    _ordered(context, node, count, "undrain")


def _object(text: str) -> dict[str, Any]:
    try:
        read = jsons.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"--args {text!r} is no JSON: {error}"
        raise click.UsageError(message) from error
    if not isinstance(read, dict):
        message = f'--args {text!r}: allowed is a JSON object, as {{"symbol": "BTC"}}'
        raise click.UsageError(message)
    return read


def _declared(context: Context, kind: str) -> Observer | None:
    """Return the kind where the app's own code declares it."""
    load_app(context.app)
    known = observers_of(context.app)
    return None if known is None else known.kinds.get(kind)


def _tell(
    context: Context, name: str, answer: Answer, words: dict[Answer, str]
) -> None:
    if not context.print_json({"name": name, "answer": answer}):
        click.echo(words[answer].format(what=name))


def _ordered(context: Context, node: str, count: int, act: str) -> None:
    if not count:
        hosts = sorted(
            {one.name for one in ObserversOverview(context.database).hosts()}
        )
        refuse_unknown("NODE", node, "there are", hosts)
    if not context.print_json({"node": node, "hosts": count}):
        click.echo(OBSERVERS.said(act, node))
