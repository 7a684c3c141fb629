"""A message is of one row, also where its outbox and another have each other's names.

Whoever sends calls the first database `default`; the worker calls it `eu`, and has
another one as `default`. Both have a row 1 that no run has begun.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from celery.app.task import Context

from celery_pecker.outbox.runs.header import HEADER
from celery_pecker.outbox.runs.messages import REVOKED
from tests.integration.outbox.runners import Hall
from tests.integration.outbox.stored import Table
from tests.services import PostgresStand

FOUND = "is of outbox 'default', which has the name 'eu' here"


@dataclass
class Pair:
    """A worker, the table of its `default`, and the sender's."""

    hall: Hall
    ours: Table
    theirs: Table
    before: dict[str, Any]

    def message(self) -> tuple[dict[str, Any], bytes]:
        """Return the message of the sender's row."""
        [message] = self.hall.push("eu")
        return message

    def reason_to_skip(self) -> bool:
        """Say whether the worker's own row is as it was."""
        return self.ours.row(1) == self.before


@pytest.fixture
def other(postgres_server: PostgresStand) -> Iterator[str]:
    """Give the address of a second database."""
    with postgres_server.fresh(migrated=True) as address:
        yield address


@pytest.fixture
def pair(other: str, halls: Callable[..., Hall], dsn: str) -> Pair:
    """Give a worker that knows both."""
    hall = halls(dsn, others={"eu": other})

    def mail(whose: str) -> str:
        hall.called.append(whose)
        return whose

    hall.task(mail)
    theirs = Table(other)
    assert hall.table.add("mail", "ours") == theirs.add("mail", "theirs") == 1
    return Pair(hall, hall.table, theirs, hall.table.row(1))


def found(caplog: pytest.LogCaptureFixture) -> int:
    """Return how often it was said that the outbox has another name."""
    return sum(FOUND in one.getMessage() for one in caplog.records)


def test_a_message_starts_its_own_row(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """Its task runs once, and its row goes; the other one waits for its own message."""
    message = pair.message()
    assert pair.hall.deliver(message) == ("SUCCESS", "theirs")
    assert found(caplog) == 1
    assert (pair.theirs.rows, pair.theirs.done) == (0, [(1, 1, False)])
    assert pair.reason_to_skip()
    assert pair.hall.deliver(message)[0] == "IGNORED", "its row is gone"
    assert pair.reason_to_skip()
    assert pair.hall.run() == ["SUCCESS"]
    assert pair.hall.called == ["theirs", "ours"]
    assert pair.ours.done == [(1, 1, False)]
    assert found(caplog) == 1


def test_a_message_parks_no_other_row_after_its_last_attempt(pair: Pair) -> None:
    """The start of a row that has had its attempts parks it: of its own message."""
    pair.ours.execute("update pecker_outbox set attempt = 1000")
    pair.before = pair.ours.row(1)
    assert pair.hall.deliver(pair.message()) == ("SUCCESS", "theirs")
    assert pair.reason_to_skip()
    assert pair.theirs.rows == 0


def test_a_message_that_was_revoked_parks_its_own_row(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """A second time there is nothing left to park."""
    [headers, _] = pair.message()
    request = Context({"id": headers["id"], HEADER: headers[HEADER]})
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            pair.hall.messages._on_revoked(pair.hall.app.tasks["mail"], request)
        pair.hall.messages._parking.shutdown()
    row = pair.theirs.row(1)
    assert (row["parked_at"] is not None, row["last_error"]) == (True, REVOKED)
    assert pair.reason_to_skip()
    assert found(caplog) == 1
    said = "is not started (it was revoked before it was run): gone, or it was run"
    assert caplog.text.count(said) == 1


def test_a_message_that_no_worker_can_begin_counts_for_its_own_row(pair: Pair) -> None:
    """This one lacks its task."""
    [headers, _] = pair.message()
    refused = SimpleNamespace(headers=headers)
    pair.hall.messages._on_refused(refused, KeyError("mail"))
    pair.hall.messages._parking.shutdown()
    row = pair.theirs.row(1)
    assert (row["attempt"], row["last_error"]) == (1, "no such task: 'mail'")
    assert pair.reason_to_skip()


def test_options_that_cannot_be_count_for_the_messages_own_row(pair: Pair) -> None:
    """As of a row whose outbox has one name everywhere."""
    task: Any = pair.hall.app.tasks["mail"]
    task.outbox_attempts = 0
    assert pair.hall.deliver(pair.message())[0] == "FAILURE"
    row = pair.theirs.row(1)
    assert (row["attempt"], "outbox_attempts is 0" in row["last_error"]) == (1, True)
    assert pair.reason_to_skip()
