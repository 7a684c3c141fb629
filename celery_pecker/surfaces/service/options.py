"""The options of the commands that serve."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

NO_TORNADO = "the service needs Tornado: pip install 'celery-pecker[service]'"


def listening(port: int) -> Callable[[Command], Command]:
    """Add where a service listens, and how; `port` is the default."""
    options = (
        click.option(
            "--address",
            default="127.0.0.1",
            show_default=True,
            help="Where to listen; elsewhere than on loopback with --certificate only.",
        ),
        click.option(
            "--port", type=click.IntRange(0, 65_535), default=port, show_default=True
        ),
        click.option(
            "--certificate",
            type=click.Path(exists=True, dir_okay=False),
            help="The certificate with its chain, PEM: HTTPS.",
        ),
        click.option(
            "--key",
            type=click.Path(exists=True, dir_okay=False),
            help="Its private key, PEM.",
        ),
        click.option(
            "--unencrypted",
            is_flag=True,
            help="HTTP on another address than loopback: something in front has TLS.",
        ),
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add
