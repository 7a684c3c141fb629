"""What is refused of a call, and how waits are counted: decided without any server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.errors import MessageTooLarge, NotRecorded
from celery_pecker.outbox.model import Entry, Mode
from celery_pecker.outbox.refusals import (
    check,
    check_key,
    check_keys,
    delay_of,
    mode_of,
)

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
MESSAGE = Message(
    task="proj.note",
    task_id="1",
    exchange="",
    routing_key="celery",
    priority=None,
    content_type="application/json",
    content_encoding="utf-8",
    declare=None,
    headers="{}",
    properties="{}",
    body=b"[]",
)


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        (True, Mode.RELAY),
        ("relay", Mode.RELAY),
        ("until_done", Mode.UNTIL_DONE),
        ("local", Mode.LOCAL),
        (Mode.LOCAL, Mode.LOCAL),
        (False, None),
        (None, None),
    ],
)
def test_a_mode_has_its_names(value: object, mode: Mode | None) -> None:
    """As `outbox=` of a task or `mode=` of a call say it."""
    assert mode_of(value, "mode") is mode


@pytest.mark.parametrize("value", ["forever", 1, 2, "", [], "RELAY"])
def test_an_unknown_mode_is_refused(value: object) -> None:
    """With what is allowed."""
    with pytest.raises(NotRecorded, match=r"mode is .*allowed are True, 'relay', 'un"):
        mode_of(value, "mode")


@pytest.mark.parametrize(
    ("countdown", "eta", "delay"),
    [
        (None, None, None),
        (0, None, None),
        (1.5, None, 1.5),
        (60, NOW, 60.0),
        (None, NOW + timedelta(hours=1), 3600.0),
        (None, (NOW + timedelta(hours=1)).isoformat(), 3600.0),
        (None, (NOW + timedelta(hours=1)).replace(tzinfo=None), 3600.0),
        (0, NOW + timedelta(seconds=5), 5.0),
        (None, NOW, None),
        (None, NOW - timedelta(days=1), None),
    ],
)
def test_a_wait_is_counted_in_seconds_from_now(
    countdown: object, eta: object, delay: float | None
) -> None:
    """A countdown goes before an eta; what lies in the past is due at once."""
    assert delay_of(countdown, eta, NOW) == delay


@pytest.mark.parametrize(
    "countdown", [-1, -0.001, float("nan"), float("inf"), "5", True, 1e12, [1]]
)
def test_a_countdown_that_cannot_be_is_refused(countdown: object) -> None:
    """Celery takes a negative one for the past, and fails late on others."""
    with pytest.raises(NotRecorded, match=r"countdown is .*allowed are seconds from 0"):
        delay_of(countdown, None, NOW)


@pytest.mark.parametrize("eta", ["tomorrow", 5, b"", datetime(9000, 1, 1, tzinfo=UTC)])
def test_an_eta_that_cannot_be_is_refused(eta: object) -> None:
    """No instant, or one that PostgreSQL would refuse in the caller's transaction."""
    with pytest.raises(NotRecorded, match=r"eta is .*allowed is"):
        delay_of(None, eta, NOW)


@pytest.mark.parametrize("key", ["", "a\0b", "x" * 501, 5, b"k", "\ud800"])
def test_a_key_that_the_table_cannot_hold_is_refused(key: object) -> None:
    """By name, before it is an error of the database."""
    with pytest.raises(NotRecorded, match=r"dedupe_key is .*allowed is a text of 1 to"):
        check_key(key)


def test_the_longest_key_fits_into_its_index() -> None:
    """In characters of four bytes."""
    check_key("🐦" * 500)


def test_a_key_is_of_one_message() -> None:
    """Which of several would be left out?"""
    keyed = Entry(MESSAGE, key="k")
    check_keys([keyed])
    check_keys([Entry(MESSAGE), Entry(MESSAGE)])
    with pytest.raises(NotRecorded, match="sends 2 messages; allowed is one"):
        check_keys([keyed, Entry(MESSAGE)])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task", "a\0b"),
        ("task_id", "\0"),
        ("routing_key", "\ud800"),
        ("exchange", "ex\0"),
        ("priority", -1),
        ("priority", 256),
        ("priority", "5"),
        ("priority", 1.5),
    ],
)
def test_what_a_column_cannot_hold_is_refused_by_its_name(
    field: str, value: Any
) -> None:
    """An error of the database would abort the transaction of the caller."""
    with pytest.raises(NotRecorded, match=field):
        check(MESSAGE._replace(**{field: value}), 1_000)


def test_the_limit_counts_headers_too() -> None:
    """A message of exactly so many bytes passes."""
    message = MESSAGE._replace(body=b"x" * 896, headers="h" * 100, properties="p" * 4)
    check(message, 1_000)
    with pytest.raises(MessageTooLarge, match=r"1001 bytes; .*_message_bytes allow"):
        check(message._replace(body=b"x" * 897), 1_000)
