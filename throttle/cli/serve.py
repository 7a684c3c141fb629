"""``throttle serve``: the service before Redis."""

import click
from celery.bin.base import CeleryCommand

from celery_pecker.surfaces.service.options import NO_TORNADO, listening
from throttle.cli.context import Context
from throttle.errors import Misconfigured, StoreUnavailable
from throttle.settings import PREFIX
from throttle.store.redis import RedisStore

TIMEOUT = 0.1
"""Seconds that Redis is waited for: clients wait 50 ms longer."""
UNSET = (
    "throttle_redis_url is not set: the Redis that the service counts in, for instance"
    " 'redis://localhost:6379/1'"
)


@click.command(cls=CeleryCommand)
@listening(8585)
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
@click.option(
    "--control-token",
    envvar="THROTTLE_CONTROL_TOKEN",
    help="Instead of throttle_control_token, which people need to change a limit.",
)
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    *,
    redis_url: str | None,
    token: str | None,
    control_token: str | None,
    **options: str | int | bool | None,
) -> None:
    """Take reports and answer questions, so that only this needs to reach Redis."""
    try:
        from celery_pecker.surfaces.service.listener import Listener, run  # noqa: PLC0415
        from throttle.service import GateService  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise click.ClickException(NO_TORNADO) from error
    # Put where they belong, so that they are checked with all others
    conf = ctx.obj.app.conf
    overrides = {
        "redis_url": redis_url,
        "service_token": token,
        "control_token": control_token,
    }
    for key, value in overrides.items():
        if value:
            conf[PREFIX + key] = value
    with Context.open(ctx) as context:
        settings = context.settings
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
        except StoreUnavailable as error:
            click.echo(f"not yet: {error}", err=True)
        try:
            listener = Listener(**options)  # type: ignore[arg-type]  # the options
            run(
                GateService(settings, store, listener),
                ready=lambda url: click.echo(f"serving on {url}"),
            )
        finally:
            store.close()
