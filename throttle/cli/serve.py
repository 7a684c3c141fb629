"""``throttle serve``: the service before Redis."""

from __future__ import annotations

import click
from celery.bin.base import CeleryCommand

from throttle.cli.desk import Desk
from throttle.errors import Away, Misconfigured
from throttle.settings import PREFIX
from throttle.store.redis import RedisStore

TIMEOUT = 0.1
"""Seconds that Redis is waited for: those who ask wait 50 ms longer."""
UNSET = (
    "throttle_redis_url is not set: the Redis that the service counts in, for instance"
    " 'redis://localhost:6379/1'"
)
NO_TORNADO = "the service needs Tornado: pip install 'celery-pecker[service]'"


@click.command(cls=CeleryCommand)
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen; elsewhere than on loopback with --certificate only.",
)
@click.option("--port", type=click.IntRange(0, 65_535), default=8585, show_default=True)
@click.option(
    "--certificate",
    type=click.Path(exists=True, dir_okay=False),
    help="The certificate with its chain, PEM: HTTPS.",
)
@click.option(
    "--key", type=click.Path(exists=True, dir_okay=False), help="Its private key, PEM."
)
@click.option(
    "--unencrypted",
    is_flag=True,
    help="HTTP on another address than loopback: something in front speaks TLS.",
)
@click.option(
    "--redis-url",
    envvar="THROTTLE_REDIS_URL",
    help="Instead of throttle_redis_url; from $THROTTLE_REDIS_URL too.",
)
@click.option(
    "--token",
    envvar="THROTTLE_SERVICE_TOKEN",
    help="Instead of throttle_service_token; best from $THROTTLE_SERVICE_TOKEN.",
)
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    *,
    redis_url: str | None,
    token: str | None,
    **given: str | int | bool | None,
) -> None:
    """Take reports and answer questions, so that only this needs to reach Redis."""
    try:
        from throttle.service.server import Door  # noqa: PLC0415  # an extra
        from throttle.service.server import serve as serve_at  # noqa: PLC0415
    except ImportError as error:
        raise click.ClickException(NO_TORNADO) from error
    # Put where they belong, so that they are checked with all others
    conf = ctx.obj.app.conf
    for key, value in (("redis_url", redis_url), ("service_token", token)):
        if value:
            conf[PREFIX + key] = value
    with Desk.open(ctx) as desk:
        settings = desk.settings
        if not settings.redis_url:
            raise Misconfigured(UNSET)
        store = RedisStore(
            settings.redis_url,
            prefix=settings.prefix,
            estimator=settings.estimator,
            timeout=TIMEOUT,
        )
        try:
            store.check()
        except Away as error:
            click.echo(f"not yet: {error}", err=True)
        try:
            serve_at(
                settings,
                store,
                Door(**given),  # type: ignore[arg-type]  # the options above
                ready=lambda url: click.echo(f"serving on {url}"),
            )
        finally:
            store.close()
