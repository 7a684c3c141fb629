"""Calls that may hang, on threads that nobody has to wait for."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Answer = TypeVar("Answer")


def aside(name: str, function: Callable[[], Answer]) -> Future[Answer]:
    """Call a function on a daemon thread: one that hangs holds up no shutdown."""
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001  # the caller's to judge
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
