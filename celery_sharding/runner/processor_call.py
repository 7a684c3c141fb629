"""The one place where a processor is called: what it raises is an answer like others.

An item that fails must not stop its shard, nor a shard its ticket: also SystemExit,
which would end the process of the pool, and CancelledError. What ends the process from
outside passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from celery_sharding.process import process_end


def attempt(
    function: Callable[..., Any], *args: Any
) -> tuple[Any, BaseException | None]:
    """Return what the function returned, or what it raised."""
    try:
        return function(*args), None
    except BaseException as error:  # noqa: BLE001  # whatever it is
        return None, _failure(error)


def each(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    ok: Callable[[Any], None],
    fail: Callable[[BaseException], None],
) -> None:
    """Call the function with each item; yield what it returned, or what it raised."""
    for item in items:
        try:
            value = function(item)
        except BaseException as error:  # noqa: BLE001  # as above
            fail(_failure(error))
        else:
            if value is not None:
                ok(value)


def _failure(error: BaseException) -> BaseException:
    """Return what is recorded of an error; raise what ends the process."""
    end = process_end(error)
    if end is not None:
        raise end
    if not isinstance(error, SystemExit):
        return error
    message = f"SystemExit({error.code!r}) was raised; the process goes on"
    failure = RuntimeError(message)
    failure.__cause__ = error
    failure.__traceback__ = error.__traceback__
    return failure
