"""``celery throttle explain``: why a task waits before its database."""

import click

from throttle.cli.context import Context
from throttle.findings import explain as why


@Context.command()
@click.argument("task_id")
def explain(context: Context, *, task_id: str) -> None:
    """Show which worker holds the task TASK_ID back, and why: all workers are asked."""
    databases = context.picture().databases
    context.print_verdict(why(context.app, task_id, databases), task_id)
