"""Have connections and threads given up in a fork: pools fork while both work."""

import os
import weakref
from typing import Protocol

from celery_pecker.kernel import user_code


class Holder(Protocol):
    """What holds connections or threads of the process that made it."""

    def abandon(self) -> None:
        """Drop them in a fork: they are the parent's."""


_ALL: weakref.WeakSet[Holder] = weakref.WeakSet()


def abandon_in_forks(holder: Holder) -> None:
    """Have it called in each fork of this process, for as long as it is there."""
    _ALL.add(holder)


def _in_fork() -> None:
    # One that fails leaves the others theirs: two processes on one connection.
    for holder in [*_ALL]:
        user_code.call("giving up connections in a fork", None, holder.abandon)


os.register_at_fork(after_in_child=_in_fork)
