"""``celery -A proj pecker flower``: Flower with our pages, and no file to write."""

import click
from celery.bin.base import CeleryCommand

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.surfaces.flower.install import install


@click.command(
    name="flower",
    cls=CeleryCommand,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("tornado_argv", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def flower(ctx: click.Context, tornado_argv: tuple[str, ...]) -> None:
    """Flower with the page Schedules; takes all options of Flower."""
    try:
        install()
    except Misconfigured as error:
        raise click.ClickException(str(error)) from error
    from flower.command import flower as theirs  # noqa: PLC0415  # an extra

    ctx.invoke(theirs, tornado_argv=tornado_argv)
