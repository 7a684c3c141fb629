"""Check single fields of a stored schedule, and of an edit of one. Pure.

`check_options` is for what people store: named options, headers of users.
`check_running` is for what stands in the tables, perhaps since before a setting or a
version, or by a hand that this code did not check.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NoReturn

from celery.app.task import Context
from kombu import compression, serialization

from celery_pecker.kernel import user_code
from celery_pecker.kernel.declared import is_whole
from celery_pecker.kernel.errors import InvalidField
from celery_pecker.schedules.declarations.validation import storable

MAX_BYTES = 65_536
"""Of args, kwargs and options, each as JSON."""
WHOLE = 1e16
"""From here on PostgreSQL brings floats of JSON back as whole numbers."""
MAX_BY = 200
"""Characters of the name of an edit's user."""


def check_name(name: object) -> str:
    """Return the name of an entry.

    Raises:
        InvalidField: PostgreSQL could not hold it.
    """
    if not isinstance(name, str) or not storable(name):
        refuse("name", name, "a text of 1 to 1000 bytes of UTF-8 without NUL")
    return name


def check_by(by: object) -> str | None:
    """Return the user of an edit; None: the database's user."""
    if by is None:
        return None
    if not isinstance(by, str) or not by or len(by) > MAX_BY or not storable(by):
        refuse("by", by, f"a text of 1 to {MAX_BY} characters without NUL")
    return by


def check_version(version: Any) -> int | None:
    """Return the version that an edit is for; None: whichever there is."""
    if version is None:
        return None
    if not is_whole(version, 0):
        refuse("version", version, "a whole number from 0 (there must be none) on")
    return int(version)


def refuse(field: str, value: object, allowed: str) -> NoReturn:
    """Raise InvalidField with what is allowed."""
    text = repr(value)
    shown = text if len(text) <= MAX_BY else f"{text[:MAX_BY]}…"
    raise InvalidField(f"{field} is {shown}; allowed is {allowed}", field=field)


def checked_json(field: str, value: Any, kind: type) -> Any:
    """Return a value as JSON brings it back.

    Raises:
        InvalidField: JSON or PostgreSQL cannot hold it.
    """
    if not isinstance(value, kind):
        refuse(field, value, "a list or tuple" if kind is list else "a dict")
    try:
        text = json.dumps(value, allow_nan=False)
        document = json.loads(text)
        same = document == _without_tuples(value)
    except (TypeError, ValueError, RecursionError) as error:
        # The text of what is nested too deep would raise once more.
        shown = "nested too deep" if isinstance(error, RecursionError) else value
        refuse(field, shown, f"what JSON can hold ({error})")
    if _has_whole_float(document):
        refuse(
            field, value, "floats below 1e16: larger ones come back as whole numbers"
        )
    if not same:
        refuse(field, value, "what JSON brings back as it was: keys that are texts")
    if "\\u0000" in text or not _encodable(text):
        refuse(field, value, "text that PostgreSQL can hold: no NUL, no half of a pair")
    if len(text) > MAX_BYTES:
        raise InvalidField(
            f"{field} has {len(text)} bytes as JSON; allowed are {MAX_BYTES}",
            field=field,
        )
    return document


def _has_whole_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_whole_float, value))
    return isinstance(value, float) and abs(value) >= WHOLE


def _without_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_tuples(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_tuples(one) for one in value]
    return value


def _encodable(text: str) -> bool:
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


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


def check_options(
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
