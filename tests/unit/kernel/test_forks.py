"""Connections are given up in a fork, each of them."""

from __future__ import annotations

import pytest

from celery_pecker.kernel import forks


class Holder:
    """What holds a connection that cannot be given up."""

    def __init__(self, given_up: list[int], number: int) -> None:
        self._given_up = given_up
        self._number = number

    def abandon(self) -> None:
        """Remember it, and fail."""
        self._given_up.append(self._number)
        raise OSError(self._number)


def test_one_that_fails_leaves_no_other_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two processes on one connection read each other's answers."""
    given_up: list[int] = []
    holders = [Holder(given_up, number) for number in (1, 2)]
    for holder in holders:
        forks.abandon_in_forks(holder)
    forks._in_fork()
    assert sorted(given_up) == [1, 2]
    assert "giving up connections in a fork failed" in caplog.text
