"""What is refused when a worker starts, in one line, and what is only warned of."""

import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery_pecker.kernel.start_refused import refusing
from celery_pecker.surfaces.console import namesake
from throttle.errors import Misconfigured

if TYPE_CHECKING:
    from throttle.settings import Settings

logger = logging.getLogger("throttle.worker")


def wanted(app: Any) -> bool:
    """Return whether workers of an app have a gate.

    Raises:
        StartRefused: A setting is misspelt, or no use without limits.
    """
    # Each `celery` command imports this module, and only workers read settings
    from throttle.settings import Settings  # noqa: PLC0415

    if app.conf.get("throttle_limits"):
        return True
    if Settings.is_mentioned(app.conf):
        with refusing(Misconfigured):
            Settings.read(app.conf)
    held = [name for name, task in app.tasks.items() if _option(task) is not None]
    if held or Settings.is_mentioned(app.conf):
        logger.warning(
            "throttle: throttle_limits is not set, so nothing is held%s",
            f" of tasks with the option throttle: {', '.join(held[:5])}"
            if held
            else "",
        )
    return False


def _option(task: Any) -> object:
    return getattr(task, "throttle", None)


def summary(settings: "Settings") -> str:
    """Return what a worker says at its start of what it holds back."""
    limits = [
        f"{name} {limit.operations:g} operations/s{' (shadow)' if limit.shadow else ''}"
        for name, limit in settings.limits.items()
    ]
    return ", ".join(limits)


def check_tasks(tasks: Mapping[str, Any], settings: "Settings") -> None:
    """Refuse a task whose option `throttle` names no database with a limit."""
    from throttle.route import Route  # noqa: PLC0415

    route = Route(None, settings.limits)
    for name, task in tasks.items():
        option = _option(task)
        if option is not None and route.read(option) is None:
            allowed = ", ".join(repr(one) for one in sorted(settings.limits))
            raise Misconfigured(
                f"task {name!r} has throttle={option!r}, which is no database in"
                f" throttle_limits, nor a pair of one and a tenant; allowed: {allowed}"
            )


def warn_of_namesakes() -> None:
    """Name each other package called `throttle`: `import throttle` is not that one."""
    for place in _namesakes():
        logger.warning(
            "throttle: there is another package called throttle in %s, which is"
            " hidden: `import throttle` is %s in this worker; rename that one",
            place,
            Path(__file__).resolve().parents[1],
        )


def _namesakes() -> Iterator[Path]:
    seen: set[Path] = set()
    for entry in sys.path:
        for name in ("throttle/__init__.py", "throttle.py"):
            path = Path(entry or ".", name)
            there = path.resolve()
            if there in seen or not path.is_file() or namesake.ours(path):
                continue
            seen.add(there)
            yield path
