"""One call of an observer's code: as a coroutine, or in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Protocol

from celery_pecker.kernel import user_code
from celery_pecker.observers.lease import Lease

Ended = Callable[[BaseException | None], None]
"""Called on the event loop with what the code raised; None: it returned."""


class Running(Protocol):
    """A call that is under way."""

    def cancel(self) -> None:
        """Ask it to end."""
        ...

    def kill(self) -> bool:
        """End it by force; return whether that is possible."""
        ...


class OnLoop:
    """An async function on the event loop."""

    def __init__(
        self,
        function: Callable[..., Any],
        lease: Lease,
        args: dict[str, Any],
        ended: Ended,
    ) -> None:
        self._ended = ended
        self.task = asyncio.get_running_loop().create_task(
            _called(function, lease, args), name=f"observer {lease.name}"
        )
        self.task.add_done_callback(self._done)

    def cancel(self) -> None:
        """Cancel the task."""
        self.task.cancel()

    def kill(self) -> bool:
        """Do nothing: it ends by itself or not at all."""
        return False

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._ended(asyncio.CancelledError("it was cancelled"))
        else:
            self._ended(task.exception())


class InThread:
    """A plain function in a thread of its own."""

    def __init__(
        self,
        function: Callable[..., Any],
        lease: Lease,
        args: dict[str, Any],
        ended: Ended,
    ) -> None:
        loop = asyncio.get_running_loop()

        def run() -> None:
            error = user_code.call_logging_errors(
                f"observer {lease.name!r}", function, lease, **args
            )
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended, error)

        threading.Thread(target=run, name=f"observer {lease.name}", daemon=True).start()

    def cancel(self) -> None:
        """Ask nothing: the lease says that it is over."""

    def kill(self) -> bool:
        """Do nothing: it ends by itself or not at all."""
        return False


async def _called(
    function: Callable[..., Any], lease: Lease, args: dict[str, Any]
) -> None:
    # Out of a task these two would end the event loop, and all that runs on it.
    try:
        await function(lease, **args)
    except (SystemExit, KeyboardInterrupt) as error:
        message = f"observer {lease.name!r} raised {error!r}"
        raise user_code.Exited(message) from error
