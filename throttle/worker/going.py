"""Admitted tasks, until they are over, however they end.

Celery tells nobody: a task may be revoked in the pool's queue, be lost with a
connection, or with its process. But it strikes the request from its list then.
"""

from __future__ import annotations

from typing import Any, Protocol

from celery.worker import state


class Ended(Protocol):
    """What wants to know."""

    def ended(self, run: int) -> None:
        """The run has started and is over."""

    def forget(self, run: int) -> None:
        """The run will not start."""


class Going:
    """Those that were admitted and are not over."""

    def __init__(self, accounts: Ended) -> None:
        self._accounts = accounts
        self._requests: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, run: int, request: Any) -> None:
        """The request was admitted as that run."""
        self._requests[run] = request

    def collect(self) -> None:
        """The accounts know which are over by now. For one thread, now and then."""
        listed = state.requests
        for run, request in list(self._requests.items()):
            if listed.get(request.id) is request:
                continue
            # A retry, under the same task id, may have come meanwhile
            if self._requests.get(run) is request:
                del self._requests[run]
            if request.time_start is None:
                self._accounts.forget(run)
            else:
                self._accounts.ended(run)
