"""``celery throttle limit``: another limit for a while, for the whole fleet."""

import getpass
import socket

import click

from throttle.cli.context import Context
from throttle.store import LONGEST, adjust


@Context.command()
@click.argument("database")
@click.argument(
    "operations", type=click.FloatRange(min=0, min_open=True), required=False
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=1, max=LONGEST),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long; then the limit of the settings is back in force.",
)
@click.option("--end", is_flag=True, help="The limit of the settings is back at once.")
@click.option("--who", default=None, help="Shown beside it (default: user@host).")
def limit(
    context: Context,
    *,
    database: str,
    operations: float | None,
    seconds: float,
    end: bool,
    who: str | None,
) -> None:
    """Set the limit of DATABASE to OPERATIONS a second, in all workers, for a while.

    Workers get it with their next report, within 0.2 s. It is stored in Redis with the
    user's name, and ends by itself, also when this machine is gone.
    """
    if end == (operations is not None):
        raise click.UsageError("say either OPERATIONS or --end")
    limits = context.settings.limits[context.known(database)]
    who = who or f"{getpass.getuser()}@{socket.gethostname()}"
    message = adjust(context.store, limits, operations, seconds, who)
    if not context.print_json({"database": database, "message": message}):
        context.console.print(f"{database}: {message}", markup=False)
