"""How every command ends: one table of exit codes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

YES, NO, MISUNDERSTOOD, UNKNOWN = 0, 1, 2, 3
"""Yes or done; no, refused or wrong; an option or argument is not understood (click's
own); unknown, since a server gave no answer, or the end was not waited for."""


class Unanswered(click.ClickException):
    """A server gave no answer: neither yes nor no."""

    exit_code = UNKNOWN


def leave(code: int) -> NoReturn:
    """End with an exit code."""
    raise click.exceptions.Exit(code)


@contextmanager
def interrupted(code: int) -> Iterator[None]:
    """End with this code at Ctrl-C: `YES` where it ends a view that has no end.

    `UNKNOWN` where an outcome was waited for. Without it click prints "Aborted!" and
    ends with `NO`, which is an answer.
    """
    try:
        yield
    except KeyboardInterrupt:
        leave(code)
