"""Admitted tasks, until they are over, however they end.

Celery sends no signal: a task may be revoked in the pool's queue, be lost with a
connection, or with its process. But it strikes the request from its list then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

from celery.worker import state

from throttle.admission import Accounts

RUN = "throttle_run"
"""Where the `delivery_info` that a task is run with says which run it is, in whatever
process. Celery makes that of four fields of a message: no other code can put it there.
What `celery inspect active` shows is the request's own, which stays as it is."""

next_run: Callable[[], int] = count(1).__next__
"""Returns a number that no other run of this process has."""


class Running:
    """Those that were admitted and are not over."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._line: deque[tuple[int, Any]] = deque()
        """Looked at in turns, by the thread that adds and the one that collects."""
        self._ended: deque[int] = deque()
        self._unstarted: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._line)

    def add(self, run: int, request: Any) -> None:
        """Note that the request was admitted as that run.

        Two others are let go of if they are over. Kept until the next reading, a tenth
        of a second's requests would outlive Python's young generation, and each full
        collection would come sooner.
        """
        request.request_dict["delivery_info"] = {**request.delivery_info, RUN: run}
        self._look(2)
        self._line.append((run, request))

    def collect(self) -> None:
        """Report to the accounts which are over. For one thread, now and then."""
        self._look(len(self._line))
        ended, unstarted = _taken(self._ended), _taken(self._unstarted)
        if ended or unstarted:
            self._accounts.over(ended, unstarted)

    def _look(self, most: int) -> None:
        line, listed = self._line, state.requests
        for _ in range(most):
            try:
                one = line.popleft()
            except IndexError:
                return
            run, request = one
            # A retry, under the same task id, may have come meanwhile
            if listed.get(request.id) is request:
                line.append(one)
            elif request.time_start is None:
                self._unstarted.append(run)
            else:
                self._ended.append(run)


def _taken(line: deque[int]) -> list[int]:
    return [line.popleft() for _ in range(len(line))]
