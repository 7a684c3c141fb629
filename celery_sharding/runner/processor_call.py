"""The one place where a processor is called: what it raises is an answer like others.

An item that fails must not stop its shard, nor a shard its ticket: also SystemExit,
which would end the process of the pool. A worker's own way out passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from celery.exceptions import WorkerShutdown, WorkerTerminate


def attempt(function: Callable[..., Any], *args: Any) -> tuple[Any, Exception | None]:
    """Return what the function returned, or what it raised."""
    try:
        return function(*args), None
    except (WorkerShutdown, WorkerTerminate):
        raise
    except SystemExit as error:
        return None, _as_failure(error)
    except Exception as error:  # noqa: BLE001  # a processor may raise anything
        return None, error


def each(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    ok: Callable[[Any], None],
    fail: Callable[[Exception], None],
) -> None:
    """Call the function with each item; yield what it returned, or what it raised."""
    for item in items:
        try:
            value = function(item)
        except (WorkerShutdown, WorkerTerminate):
            raise
        except SystemExit as error:
            fail(_as_failure(error))
        except Exception as error:  # noqa: BLE001  # as above
            fail(error)
        else:
            if value is not None:
                ok(value)


def _as_failure(error: SystemExit) -> Exception:
    """Return an error that says that the code wanted the process to end."""
    message = f"SystemExit({error.code!r}) was raised; the process goes on"
    failure = RuntimeError(message)
    failure.__cause__ = error
    failure.__traceback__ = error.__traceback__
    return failure
