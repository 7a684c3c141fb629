"""``pecker intake``: record tasks for services in other languages."""

from typing import Any

import click
from celery.bin.base import CeleryCommand

from celery_pecker.kernel.app_modules import load_app
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.outbox import Outbox, outboxes
from celery_pecker.surfaces.cli.context import Context
from celery_pecker.surfaces.service.options import NO_TORNADO, listening


@click.command(cls=CeleryCommand)
@listening(8586)
@click.option(
    "--outbox", "name", default=None, metavar="NAME", help="Default: the app's first."
)
@click.option(
    "--token",
    envvar="PECKER_INTAKE_TOKEN",
    required=True,
    help="The secret that services show; best from $PECKER_INTAKE_TOKEN.",
)
@click.pass_context
def intake(
    ctx: click.Context, /, *, name: str | None, token: str, **where: Any
) -> None:
    """Record tasks over HTTP; each request is answered once they are committed."""
    try:
        from celery_pecker.surfaces.intake.server import IntakeService  # noqa: PLC0415  # an extra
        from celery_pecker.surfaces.service.listener import Listener, run  # noqa: PLC0415
    except ImportError as error:
        raise click.ClickException(NO_TORNADO) from error
    with Context.open(ctx) as context:
        load_app(context.app)
        outbox = _outbox(context, name)
        service = IntakeService(outbox, Listener(**where), token)
        try:
            run(service, ready=lambda url: click.echo(f"serving on {url}"))
        finally:
            outbox.close()


def _outbox(context: Context, name: str | None) -> Outbox:
    known = {outbox.name: outbox for outbox in outboxes(context.app)}
    if not known:
        return Outbox(context.app)
    if name is None:
        return next(iter(known.values()))
    if name not in known:
        raise Misconfigured(
            f"--outbox {name!r} is none of the app's: {', '.join(sorted(known))}"
        )
    return known[name]
