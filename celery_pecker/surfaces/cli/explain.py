"""``pecker explain``: why it did not run."""

import click

from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.declared import moment_of
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.lease import SLACK
from celery_pecker.schedules.overview.explain import explain as answer
from celery_pecker.schedules.overview.verdicts import Question
from celery_pecker.surfaces.cli.context import Context
from celery_pecker.surfaces.cli.upcoming import first_after


@Context.command()
@click.argument("name")
@click.option(
    "--at",
    "slot",
    metavar="INSTANT",
    help="Which slot is meant, in ISO 8601; default the last one, and the one to come.",
)
def explain(context: Context, *, name: str, slot: str | None) -> None:
    """Show why an entry runs or does not: one verdict, and what it rests on."""
    entry = context.declared.get(name)
    detail = context.overview.entry(name)
    next_us = None
    if detail is not None:
        next_us = first_after(entry, detail.row, detail.now_us)
    reply = answer(
        Question(
            name=name,
            detail=detail,
            replicas=context.overview.replicas(),
            locks=context.overview.locks(),
            declared_in_code=entry is not None,
            next_us=next_us,
            names=[] if detail is not None else context.names,
            slack_us=round(SLACK * 1_000_000),
            slot_us=None if slot is None else _instant(slot, context),
        ),
        context.at,
    )
    context.print_verdict(reply, name)


def _instant(text: str, context: Context) -> int:
    """Return what was typed, in the app's time zone if it names none."""
    instant = moment_of(text, context.zone)
    if instant is None:
        raise Misconfigured(
            f"--at is {text!r}; allowed is an instant in ISO 8601: 2026-01-01T12:00"
        )
    return to_us(instant)
