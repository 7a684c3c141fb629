"""What is refused when a worker starts, in one line, and what is only warned of."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from throttle.errors import Misconfigured
from throttle.settings import Settings

logger = logging.getLogger("throttle.worker")


class Refused(Misconfigured, click.ClickException):
    """This worker cannot start like this; said in one line on the command line."""

    def __init__(self, message: str) -> None:
        click.ClickException.__init__(self, message)

    def __str__(self) -> str:
        """Return the message."""
        return self.message


def settings_of(app: Any) -> Settings:
    """Return the app's settings, checked."""
    return Settings.read(app.conf)


def check_tasks(tasks: Mapping[str, Any], settings: Settings) -> None:
    """Refuse a task whose option `throttle` names no database with a limit."""
    for name, task in tasks.items():
        option = getattr(task, "throttle", None)
        database = option[0] if isinstance(option, tuple) and option else option
        if database is not None and database not in settings.limits:
            allowed = ", ".join(repr(one) for one in sorted(settings.limits))
            message = (
                f"task {name!r} has throttle={option!r}, which is no database in"
                f" throttle_limits; allowed are {allowed}"
            )
            raise Misconfigured(message)


def warn_of_namesakes() -> None:
    """Say if there is another package called `throttle`: one of the two is hidden."""
    for place in _namesakes():
        logger.warning(
            "throttle: there is another package called throttle in %s; which of the two"
            " is imported depends on sys.path",
            place,
        )


def _namesakes() -> Iterator[Path]:
    ours = Path(__file__).resolve().parents[1]
    seen = {ours}
    for entry in sys.path:
        for found in (
            Path(entry or ".", "throttle"),
            Path(entry or ".", "throttle.py"),
        ):
            there = found.resolve()
            if there in seen or not (
                found.is_file() or (found / "__init__.py").exists()
            ):
                continue
            seen.add(there)
            yield found
