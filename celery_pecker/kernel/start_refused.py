"""What ends a process at its start, in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from celery_pecker.kernel.errors import Misconfigured


class StartRefused(Misconfigured, click.ClickException):
    """This process cannot start like this; one line on the command line."""

    def __init__(self, message: str) -> None:
        click.ClickException.__init__(self, message)

    def __str__(self) -> str:
        """Return the message."""
        return self.message


@contextmanager
def refusing(kind: type[Exception] = Misconfigured) -> Iterator[None]:
    """End the process where what is made in the block is misconfigured."""
    try:
        yield
    except kind as error:
        raise StartRefused(str(error)) from error
