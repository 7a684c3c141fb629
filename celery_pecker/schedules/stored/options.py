"""What a stored schedule may say of its messages: named options, headers of users.

`check` is for what people store. `check_running` is for what stands in the tables,
perhaps since before a setting or a version, or by a hand that this code did not check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from celery.app.task import Context
from kombu import compression, serialization

from celery_pecker.kernel import user_code
from celery_pecker.schedules.stored.checks import refuse

NUMBER = (int, float)
OPTIONS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("queue", "exchange", "routing_key"), (str,)),
    **dict.fromkeys(("serializer", "compression"), (str,)),
    **dict.fromkeys(("priority", "delivery_mode"), (int,)),
    **dict.fromkeys(("time_limit", "soft_time_limit"), NUMBER),
    **dict.fromkeys(("countdown", "expires"), (*NUMBER, str)),
    **dict.fromkeys(("ignore_result", "retry"), (bool,)),
    "headers": (dict,),
}
"""Options of `apply_async` that people may choose, and what they are in JSON."""
OTHER_TASKS = ("link", "link_error", "chain", "chord")
"""Options that name tasks of their own; a header `task` replaces the schedule's."""
OURS = ("_", "celery_pecker", "pecker", "sharding", "throttle", "trace")
"""How headers begin that these packages read: slots, rows, Sources, deadlines, traces.
A header becomes an attribute of the request; those with an underscore are internal."""
CELERYS = frozenset(
    {*vars(Context), "task", "lang", "meth", "argsrepr", "kwargsrepr", "compression"}
)
"""Headers that Celery or kombu itself reads."""


WRITERS: Mapping[str, Callable[[Any, str], object]] = {
    "serializer": serialization.dumps,
    "compression": lambda _, name: compression.compress(b"", name),
}
"""What tries an option on the arguments of a task."""


def allowed(task: str, allow_list: Sequence[str] | None) -> bool:
    """Return whether names and patterns allow a task; None: they allow all."""
    return allow_list is None or any(fnmatchcase(task, one) for one in allow_list)


def check_task(task: str, allow_list: Sequence[str] | None) -> None:
    """Raise InvalidField for a task that pecker_allowed_tasks does not name."""
    if not allowed(task, allow_list):
        patterns = ", ".join(map(repr, allow_list or ())) or "none"
        refuse("task", task, f"{patterns} (setting pecker_allowed_tasks)")


def check(
    options: Mapping[str, Any], allow_list: Sequence[str] | None, arguments: Any
) -> None:
    """Raise InvalidField for what people may not store, or no message can be made of.

    ``arguments``: of the task, which the serializer must be able to write.
    """
    check_running(options, allow_list)
    named = {**OPTIONS, **dict.fromkeys(OTHER_TASKS, (dict, list))}
    for key, value in options.items():
        kinds = named.get(key)
        if kinds is None:
            refuse("options", {key: value}, f"one of {', '.join(OPTIONS)}")
        if value is not None and type(value) not in kinds:
            words = " or ".join(kind.__name__ for kind in kinds)
            refuse("options", {key: value}, f"{words} under {key!r}")
    for header in options.get("headers") or {}:
        if header in CELERYS - {"task"}:
            refuse("options", {"headers": header}, "headers that Celery does not set")
    for key, write in WRITERS.items():
        if options.get(key) is not None:
            _, error = user_code.tried(write, arguments, options[key])
            if error is not None:
                refuse("options", {key: options[key]}, f"one that works ({error!r})")


def check_running(options: Mapping[str, Any], allow_list: Sequence[str] | None) -> None:
    """Raise InvalidField for headers that are not for people, and for other tasks."""
    for headers in _headers(options):
        for header in headers:
            if header.startswith(OURS):
                refuse("options", {"headers": header}, f"none with {', '.join(OURS)}…")
    other = [key for key in OTHER_TASKS if options.get(key)]
    if allow_list is not None and "task" in (options.get("headers") or ()):
        other.append("headers['task']")
    if other and allow_list is not None:
        only = "which runs other tasks than those of the setting pecker_allowed_tasks"
        refuse("options", dict(options), f"none with {' or '.join(other)}, {only}")


def _headers(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the headers of options, and of signatures inside of them."""
    if isinstance(value, Mapping):
        headers = value.get("headers")
        if isinstance(headers, Mapping):
            yield headers
        for one in value.values():
            yield from _headers(one)
    elif isinstance(value, list):
        for one in value:
            yield from _headers(one)
