"""Read what a request asks for. Pure."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, NoReturn

from celery_pecker.kernel.declared import TEXT, is_number, is_whole
from celery_pecker.kernel.errors import PeckerError

MOST = 1_000
"""Tasks of one request."""
LONGEST_KEY = 200
"""Characters of an Idempotency-Key."""
LONGEST_DELAY = 10 * 366 * 86_400.0
"""Seconds of a countdown, or until a task expires."""
FIELDS = frozenset({"task", "args", "kwargs", "options"})
QUEUE = re.compile(r"(?!unacked|_kombu|pecker:|celery-task-meta)[\w.:@/-]{1,250}")
"""Neither a key of kombu's, Celery's or ours in Redis, nor longer than AMQP's names."""
OPTIONS = "countdown, eta, expires, priority, queue"


class Malformed(PeckerError, ValueError):
    """A request is not in the form that the intake reads."""


class NotAllowed(PeckerError):
    """A task is not one of those that requests may record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOrder:
    """One task that is to be recorded."""

    task: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def read(body: bytes, allowed: Sequence[str]) -> list[TaskOrder]:
    """Return the tasks of a request, in order.

    Args:
        body: JSON: one task, or ``{"tasks": [...]}``.
        allowed: names of tasks, or patterns such as ``billing.*``.

    Raises:
        Malformed: names the field, the value and what is allowed.
        NotAllowed: names the task.

    """
    try:
        document = json.loads(
            body,
            parse_constant=_finite,
            parse_float=_finite,
            object_hook=_plain,
        )
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a pair, which neither server takes
        _refuse("the body", "text that UTF-8 has", "a lone surrogate")
    except Malformed:
        raise
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the body is no JSON: {error}") from error
    if isinstance(document, dict) and "tasks" in document:
        several = document["tasks"]
        if document.keys() != {"tasks"}:
            _refuse("the body", "a task, or an object with only 'tasks'", document)
        if not isinstance(several, list) or not 0 < len(several) <= MOST:
            _refuse("tasks", f"a list of 1 to {MOST} tasks", several)
        orders = [_order(f"tasks[{nth}]", one) for nth, one in enumerate(several)]
    else:
        orders = [_order("the body", document)]
    for order in orders:
        if not any(fnmatchcase(order.task, pattern) for pattern in allowed):
            raise NotAllowed(f"task {order.task[:80]!r} is not in pecker_intake_tasks")
    return orders


def read_key(value: str | None) -> str | None:
    """Return an Idempotency-Key; None: the request has none."""
    if value is None:
        return None
    if not 0 < len(value) <= LONGEST_KEY or not value.isprintable():
        form = f"1 to {LONGEST_KEY} printable characters"
        _refuse("Idempotency-Key", form, value)
    return value


def _order(where: str, value: object) -> TaskOrder:
    if not isinstance(value, dict) or not value.keys() <= FIELDS:
        _refuse(where, f"an object with {', '.join(sorted(FIELDS))}", value)
    task = value.get("task")
    if not isinstance(task, str) or not TEXT.is_allowed(task):
        _refuse(f"{where}: task", "the name of a task", task)
    args = value.get("args", [])
    if not isinstance(args, list):
        _refuse(f"{where}: args", "a list", args)
    kwargs = value.get("kwargs", {})
    if not isinstance(kwargs, dict):
        _refuse(f"{where}: kwargs", "an object", kwargs)
    options = value.get("options", {})
    if not isinstance(options, dict):
        _refuse(f"{where}: options", f"an object with {OPTIONS}", options)
    read_options = {
        name: _option(f"{where}: options.{name}", name, one)
        for name, one in options.items()
    }
    if "eta" in read_options and "countdown" in read_options:
        _refuse(f"{where}: options", "either countdown or eta", options)
    return TaskOrder(task=task, args=args, kwargs=kwargs, options=read_options)


def _option(where: str, name: str, value: object) -> Any:
    if name in {"countdown", "expires"}:
        if not is_number(value, 0, LONGEST_DELAY):
            _refuse(where, f"seconds from 0 to {LONGEST_DELAY:.0f}", value)
        return value
    if name == "eta":
        return _instant(where, value)
    if name == "priority":
        if not is_whole(value, 0, 9):  # Celery's
            _refuse(where, "a whole number from 0 to 9", value)
        return value
    if name == "queue":
        if not isinstance(value, str) or not QUEUE.fullmatch(value):
            _refuse(where, f"the name of a queue ({QUEUE.pattern})", value)
        return value
    return _refuse(where, f"one of {OPTIONS}", name)


def _instant(where: str, value: object) -> datetime:
    form = "an instant with its offset, as 2026-01-31T12:00:00Z"
    try:
        instant = datetime.fromisoformat(str(value))
        instant.astimezone(UTC)
    except (ValueError, OverflowError):
        _refuse(where, form, value)
    if not isinstance(value, str) or instant.tzinfo is None:
        _refuse(where, form, value)
    return instant


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _refuse("a number", "finite", text)
    return number


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    # kombu makes an object of it: in the worker, of what code has registered.
    if "__type__" in value:
        _refuse("an object", "without '__type__'", value)
    return value


def _refuse(where: str, allowed: str, value: object) -> NoReturn:
    if isinstance(value, float) and not math.isfinite(value):
        value = str(value)
    raise Malformed(f"{where} must be {allowed}, not {repr(value)[:80]}")
