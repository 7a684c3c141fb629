"""Entry points of ``throttle``: there unless a project has a module of that name.

The ``celery`` command loads entry points before it adds the current directory to
``sys.path``. If one of them imported ``throttle`` by itself, a project's own
``throttle.py`` would never be found: `throttle.limit()` would be an AttributeError.
So they are in this package. They look where the app will look, and leave the name to
the project if it is taken: then there is no gate, and a worker logs it at its start.
"""

import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click
from celery import signals

from celery_pecker.surfaces.console.namesake import NAME, other

logger = logging.getLogger("throttle")

HIDDEN = (
    "this project has a module {name!r} of its own, {path}, which hides the package"
    " {name!r} of celery-pecker: there is no gate before the database, no command"
    " `celery throttle` and no page in Flower; rename the module to have them"
)


def command(words: Sequence[str]) -> click.Command:
    """Return the command `throttle`, or one that prints why it is not there."""
    hidden = other(words)
    if hidden is None:
        group: click.Command = import_module(f"{NAME}.cli").throttle
        return group
    text = HIDDEN.format(name=NAME, path=hidden)

    def on_setup(conf: Any, **_: object) -> None:
        """Warn at the start of a worker; end it if a gate was asked for."""
        if conf.get("throttle_limits"):
            raise SystemExit(f"throttle_limits is set, but {text}")
        logger.warning("throttle: %s", text)

    signals.celeryd_after_setup.connect(
        on_setup, dispatch_uid="celery_pecker.surfaces.console.entry_points", weak=False
    )

    @click.command(
        name=NAME,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def absent(**_: object) -> None:
        raise click.ClickException(text)

    return absent


throttle = command(sys.argv[1:])


ROOMS = {"PAGES": "flower", "FINDER": "findings"}


def __getattr__(name: str) -> object:
    """Return the pages of ``throttle`` in Flower, or what it finds, for `Now`.

    None of it, and no page, if its name is taken.
    """
    if name not in ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if other(sys.argv[1:]):
        return () if name == "PAGES" else None
    return getattr(import_module(f"{NAME}.{ROOMS[name]}"), name)
