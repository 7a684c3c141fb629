"""What is refused before anything is written, with what is allowed. Pure."""

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from celery_pecker.kernel.declared import is_number, is_storable, is_whole
from celery_pecker.kernel.errors import Misconfigured, ObserverRefused
from celery_pecker.observers.model import Isolation, Unreachable
from celery_pecker.observers.retry import Retry

MAX_NAME = 500
"""Characters."""
MAX_ARGS = 16_384
"""Bytes of the arguments as JSON."""
MAX_STATE = 4_096
"""Bytes of a cursor as JSON."""
MAX_WEIGHT = 1_000_000
MAX_GRACE = 600.0
"""Seconds."""
RESERVED = ("connection", "full", "on_parked", "on_moved", "name", "kind")
"""Names that `start` has for itself."""
FULL = ("wait", "refuse")


def text(field: str, value: object, most: int = MAX_NAME) -> str:
    """Return a name that PostgreSQL can hold."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= most
        or not is_storable(value)
    ):
        ObserverRefused.refuse(field, value, f"are 1 to {most} characters, none NUL")
    return value


def full(value: object) -> bool:
    """Return whether to refuse where no host has room."""
    if value not in FULL:
        ObserverRefused.refuse("full", value, "are 'wait' and 'refuse'")
    return value == "refuse"


def arguments(name: str, kwargs: Mapping[str, Any]) -> str:
    """Return the arguments of an observer as JSON."""
    return _json(f"the arguments of observer {name!r}", kwargs, MAX_ARGS)


def state(name: str, value: object) -> str:
    """Return a cursor as JSON."""
    return _json(f"the state of observer {name!r}", value, MAX_STATE)


def bound(
    kind: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> dict[str, Any]:
    """Return the arguments by the names that the function has for them."""
    try:
        call = inspect.signature(function).bind(None, *args, **kwargs)
    except TypeError as error:
        _, *allowed = inspect.signature(function).parameters.values()
        raise ObserverRefused(
            f"the arguments of observer kind {kind!r} do not fit its function:"
            f" {error}; allowed is ({', '.join(map(str, allowed))})"
        ) from None
    result: dict[str, Any] = {}
    _lease, *given = call.arguments.items()
    for key, value in given:
        if call.signature.parameters[key].kind is inspect.Parameter.VAR_KEYWORD:
            result.update(value)
        else:
            result[key] = value
    return result


def function(kind: str, target: object) -> Callable[..., Any]:
    """Return what can be run as an observer."""
    if not callable(target) or isinstance(target, type):
        Misconfigured.refuse(
            f"observer {kind!r}",
            target,
            "is a function, async or plain, whose first argument is the lease",
        )
    parameters = [*inspect.signature(target).parameters.values()]
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    if not parameters or parameters[0].kind not in positional:
        raise Misconfigured(
            f"observer {kind!r} takes no argument; its first one is the lease"
        )
    for one in parameters[1:]:
        if one.name in RESERVED:
            raise Misconfigured(
                f"observer {kind!r} has an argument {one.name!r}, which start() has for"
                f" itself; not allowed are {', '.join(RESERVED)}"
            )
        if one.kind in {
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.POSITIONAL_ONLY,
        }:
            raise Misconfigured(
                f"observer {kind!r} has the argument {one}; allowed are those that can"
                " be given by name"
            )
    return target


def isolation(kind: str, target: Callable[..., Any], value: object) -> Isolation:
    """Return where the function is to run."""
    is_async = inspect.iscoroutinefunction(target)
    if value is None:
        return Isolation.LOOP if is_async else Isolation.THREAD
    allowed = [Isolation.LOOP] if is_async else [Isolation.THREAD, Isolation.PROCESS]
    if value not in allowed:
        shape = "an async" if is_async else "a plain"
        Misconfigured.refuse(
            f"isolation of observer {kind!r}",
            value,
            f"for {shape} function is {' or '.join(repr(str(one)) for one in allowed)}",
        )
    return Isolation(str(value))


def weight(kind: str, value: Any) -> int:
    """Return a weight."""
    if not is_whole(value, 1, MAX_WEIGHT):
        Misconfigured.refuse(
            f"weight of observer {kind!r}",
            value,
            f"is a whole number from 1 to {MAX_WEIGHT}",
        )
    return int(value)


def grace(kind: str, value: Any) -> float:
    """Return the seconds that an observer has to end."""
    if not is_number(value, 0, MAX_GRACE):
        Misconfigured.refuse(
            f"stop_grace of observer {kind!r}", value, f"are 0 to {MAX_GRACE:g} seconds"
        )
    return float(value)


def retry(kind: str, value: object) -> Retry:
    """Return a retry policy."""
    if not isinstance(value, Retry):
        Misconfigured.refuse(f"retry of observer {kind!r}", value, "is Retry(…)")
    return value


def unreachable(kind: str, value: object) -> Unreachable:
    """Return what to do while the database is away."""
    if value not in [*Unreachable]:
        Misconfigured.refuse(
            f"unreachable of observer {kind!r}", value, "are 'stop' and 'go_on'"
        )
    return Unreachable(str(value))


def signature(field: str, value: Any) -> str | None:
    """Return a Celery signature as JSON; None for none."""
    if value is None:
        return None
    if not hasattr(value, "apply_async") or not isinstance(value, Mapping):
        ObserverRefused.refuse(field, value, "is a signature, as task.s(…) makes it")
    return _json(field, dict(value), MAX_ARGS)


def _json(what: str, value: object, most: int) -> str:
    try:
        result = json.dumps(value, allow_nan=False, separators=(",", ":"))
        back = json.loads(result)
    except (TypeError, ValueError, RecursionError) as error:
        raise ObserverRefused(f"{what} cannot be written as JSON: {error}") from None
    if "\\u0000" in result or not is_storable(result):
        raise ObserverRefused(
            f"{what} has text that PostgreSQL cannot hold (NUL, or half a pair)"
        )
    if isinstance(value, Mapping) and {*back} != {*value}:
        raise ObserverRefused(
            f"{what} has keys that are no text; allowed are those of JSON"
        )
    if len(result.encode()) > most:
        raise ObserverRefused(
            f"{what} has {len(result.encode())} bytes as JSON; allowed are {most}"
        )
    return result
