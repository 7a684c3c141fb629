"""``pecker observe``: run the observers of the app."""

from typing import Any

import click
from celery.bin.base import CeleryCommand

from celery_pecker import heartbeat
from celery_pecker.kernel.app_modules import load_app
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.observers.app import observers_of
from celery_pecker.observers.hosts.supervisor import Supervisor
from celery_pecker.surfaces.cli.context import Context, number


@click.command(cls=CeleryCommand)
@click.option("--name", help="Of the hosts, beside a number; default this machine.")
@number("--hosts", 1, 100, "Host processes; default pecker_observers_hosts.")
@number(
    "--capacity",
    1,
    10_000_000,
    "Weights of one host; default pecker_observers_capacity.",
    None,
    "room",
)
@click.option("--loglevel", default="INFO", show_default=True, help="Of the hosts.")
@Context.opened
def observe(context: Context, /, **options: Any) -> None:
    """Run observers until a signal; then hand them over to other hosts.

    A second signal ends them at once.
    """
    load_app(context.app)
    observers = observers_of(context.app)
    if observers is None:
        raise Misconfigured("the app has no observers: make them with Observers(app)")
    Supervisor(observers, **options).become(heartbeat.folder(observers.settings))
