"""``pecker alarms``: what rings, where notices go, and a trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click
from celery.bin.base import CeleryCommand

from celery_pecker.alarms.model import Event, Notice
from celery_pecker.alarms.overview import AlarmsOverview
from celery_pecker.alarms.rules import read_rules
from celery_pecker.alarms.targets import read_targets
from celery_pecker.kernel import user_code
from celery_pecker.surfaces.cli.context import NO, Context, as_json, limited
from celery_pecker.surfaces.cli.observers import refuse_unknown
from celery_pecker.surfaces.console.group import subcommand_follows
from celery_pecker.surfaces.console.rendering import print_figures, print_table
from celery_pecker.surfaces.views.alarms import (
    ALARMS,
    ALARMS_TABLE,
    TARGETS,
    AlarmsSummary,
)

TEXT = "a trial of `celery -A proj pecker alarms test`: nothing is wrong"


@click.group(name="alarms", invoke_without_command=True)
@click.option("--all", "every", is_flag=True, help="Also what has recovered lately.")
@limited
@as_json
@click.pass_context
def alarms(ctx: click.Context, /, *, every: bool, limit: int, json: bool) -> None:
    """Show what rings, the newest first, and targets that fail."""
    if subcommand_follows(ctx):
        return
    with opened(ctx, json=json) as (context, overview):
        rows = overview.alarms(every=every, limit=limit)
        rules, targets = overview.rules(), overview.targets()
        if not context.print_json({"alarms": rows, "rules": rules, "targets": targets}):
            print_figures(context, ALARMS, AlarmsSummary(rules, targets))
            print_table(context, ALARMS_TABLE, rows)
            failing = [one for one in targets if one.failing_since is not None]
            print_table(context, TARGETS, failing)
        if any(one.ringing for one in rules):
            context.leave(NO)


@alarms.command(cls=CeleryCommand)
@click.option("--to", "names", multiple=True, help="This target only; repeatable.")
@as_json
@click.pass_context
def test(ctx: click.Context, /, *, names: Sequence[str], json: bool) -> None:
    """Send a trial to each target, from this process and at once."""
    with opened(ctx, json=json) as (context, overview):
        settings = context.settings
        read_rules(settings.alarms, settings.alarms_to)
        targets = read_targets(settings.alarms_to or {})
        for name in names:
            if name not in targets:
                refuse_unknown("--to", name, "there are", sorted(targets))
        # The database's time, as in each notice: and it is reached.
        now = overview.now()
        results = {}
        for name in names or targets:
            notice = Notice(
                id=0,
                target=name,
                rule="trial",
                kind="trial",
                subject=context.app.main or "celery",
                event=Event.TRIAL,
                detail=TEXT,
                since=now,
                at=now,
            )
            error = user_code.tried(targets[name], notice)[1]
            results[name] = None if error is None else user_code.shown(error)
        if not context.print_json({"targets": results}):
            for name, failed in results.items():
                context.print("", f"{name}: {failed or 'sent'}")
        if any(results.values()):
            context.leave(NO)


@contextmanager
def opened(
    ctx: click.Context, *, json: bool
) -> Iterator[tuple[Context, AlarmsOverview]]:
    """Yield the context and what the tables say of alarms."""
    with Context.open(ctx, json=json) as context:
        yield context, AlarmsOverview(context.database)
