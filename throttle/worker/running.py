"""Admitted tasks, until they are over, however they end.

Celery tells nobody: a task may be revoked in the pool's queue, be lost with a
connection, or with its process. But it strikes the request from its list then.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Any, Protocol

from celery.worker import state

RUN = "throttle_run"
"""Where a request's `delivery_info` says which run it is, in whatever process it is
run. Celery makes that of four fields of a message: nobody else can put it there."""

_numbers = count(1)


def next_run() -> int:
    """Return a number that no other run of this process has."""
    return next(_numbers)


def run_of(request: Any) -> int:
    """Return the number of the run that a task's request is; 0: nobody counts it."""
    number: int = (request.delivery_info or {}).get(RUN, 0)
    return number


class Ended(Protocol):
    """What wants to know."""

    def over(self, ended: Collection[int], unstarted: Collection[int]) -> None:
        """Take which have started and are over, and which will not start."""


class Running:
    """Those that were admitted and are not over."""

    def __init__(self, accounts: Ended) -> None:
        self._accounts = accounts
        self._requests: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, run: int, request: Any) -> None:
        """Note that the request was admitted as that run."""
        self._requests[run] = request
        request.delivery_info[RUN] = run

    def collect(self) -> None:
        """Report to the accounts which are over. For one thread, now and then."""
        listed, requests = state.requests, self._requests
        ended: list[int] = []
        unstarted: list[int] = []
        for run, request in list(requests.items()):
            # A retry, under the same task id, may have come meanwhile
            if listed.get(request.id) is not request:
                del requests[run]
                (unstarted if request.time_start is None else ended).append(run)
        if ended or unstarted:
            self._accounts.over(ended, unstarted)
