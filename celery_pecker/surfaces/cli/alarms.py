"""``pecker alarms``: what rings, where notices go, and a trial."""

from collections.abc import Sequence
from typing import Any

import click

from celery_pecker.alarms import operations
from celery_pecker.alarms.model import Event, Notice
from celery_pecker.alarms.overview import AlarmsOverview
from celery_pecker.alarms.rules import read_rules
from celery_pecker.alarms.targets import read_targets
from celery_pecker.kernel import user_code
from celery_pecker.kernel.audit import current_user
from celery_pecker.surfaces.cli.context import NO, Context, limited
from celery_pecker.surfaces.cli.observers import refuse_unknown
from celery_pecker.surfaces.console.database_context import acting
from celery_pecker.surfaces.console.rendering import filters, print_figures, print_table
from celery_pecker.surfaces.views.alarms import (
    ALARMS,
    ALARMS_TABLE,
    TARGETS,
    AlarmsSummary,
)
from celery_pecker.surfaces.views.model import Query

TEXT = "a trial of `celery -A proj pecker alarms test`: nothing is wrong"


@Context.group
@click.option("--all", "every", is_flag=True, help="Also what has recovered lately.")
@filters(ALARMS_TABLE)
@limited
def alarms(context: Context, /, *, every: bool, query: Query, limit: int) -> None:
    """Show what rings, the newest first, and targets that fail."""
    overview = AlarmsOverview(context.database)
    every = every or "state" in query
    rows = overview.alarms(every=every, limit=limit, **ALARMS_TABLE.asked(query))
    rules, targets = overview.rules(), overview.targets()
    if not context.print_json({"alarms": rows, "rules": rules, "targets": targets}):
        print_figures(context, ALARMS, AlarmsSummary(rules, targets))
        print_table(context, ALARMS_TABLE, rows)
        failing = [one for one in targets if one.failing_since is not None]
        print_table(context, TARGETS, failing)
    if any(one.ringing for one in rules):
        context.leave(NO)


def _acting(name: str, help_: str, *options: Any) -> None:
    """Add a command that does what the button of this name does."""
    act = ALARMS.acts[name][0]

    @acting(f"alarms {name}", "rule", "subject")
    def command(
        context: Context, /, *, rule: str, subject: str, typed: str = ""
    ) -> None:
        until = None
        if name == "snooze":
            until = operations.until(context.database, typed, context.zone)
        key, by = f"{rule}\0{subject}", current_user()
        operations.change(context.database, name, key, by, note=typed, until=until)
        if not context.print_json({"rule": rule, "subject": subject, "act": name}):
            click.echo(act.said(f"{rule} {subject}"))

    command.__doc__ = help_
    for option in (*options, click.argument("subject"), click.argument("rule")):
        command = option(command)
    Context.command(name, group=alarms)(command)


_acting(
    "take",
    "Take an alarm: others see that you look after it.",
    click.option("--note", "typed", default="", help="What others should know."),
)
_acting("give-back", "Give an alarm back, whoever has taken it.")
_acting(
    "snooze",
    "Send nothing of an alarm until then; if it still rings, it rings anew.",
    click.option(
        "--until",
        "typed",
        required=True,
        help="30m, 8h, 2d, or an instant in ISO 8601; naive: app's zone.",
    ),
)
_acting("mute", "Send nothing of an alarm until it is unmuted.")
_acting("unmute", "End a mute, or a snooze: if it still rings, it rings anew.")


@Context.command(group=alarms)
@click.option("--to", "names", multiple=True, help="This target only; repeatable.")
def test(context: Context, /, *, names: Sequence[str]) -> None:
    """Send a trial to each target, from this process and at once."""
    settings = context.settings
    read_rules(settings.alarms, settings.alarms_to)
    targets = read_targets(settings.alarms_to or {})
    for name in names:
        if name not in targets:
            refuse_unknown("--to", name, "there are", sorted(targets))
    # The database's time, as in each notice: and it is reached.
    now = AlarmsOverview(context.database).now()
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
