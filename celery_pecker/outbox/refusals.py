"""What is refused at the call, before anything is written. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.declared import is_number, is_storable, moment_of
from celery_pecker.kernel.errors import MessageTooLarge, NotRecorded
from celery_pecker.outbox.model import Entry, Mode

MODES: Mapping[object, Mode] = {
    True: Mode.RELAY,
    **{mode.name.lower(): mode for mode in Mode},
}
LONGEST_DELAY = 100 * 366 * 86_400
"""Seconds. PostgreSQL could not count much further than Python's datetime."""
LONGEST_KEY = 500
"""Characters of up to four bytes; an entry of the index has at most 2,704 bytes."""
HIGHEST_PRIORITY = 255
_TEXTS = (
    "task",
    "task_id",
    "exchange",
    "routing_key",
    "content_type",
    "content_encoding",
)


def mode_of(value: object, where: str) -> Mode | None:
    """Return the mode that ``outbox=`` of a task or ``mode=`` of a call names.

    None for False and None: no outbox.
    """
    if value is None or value is False:
        return None
    if isinstance(value, Mode):
        return value
    if not isinstance(value, (str, bool)) or value not in MODES:
        allowed = "are True, 'relay', 'until_done', 'local' and False"
        NotRecorded.refuse(where, value, allowed)
    return MODES[value]


def delay_of(countdown: Any, eta: object, now: datetime) -> float | None:
    """Return the seconds to wait from now on, None to go at once.

    As Celery: a countdown goes before an eta, and an eta without a zone is UTC. An eta
    in the past is due at once.
    """
    if countdown is not None:
        if not is_number(countdown, 0, LONGEST_DELAY):
            NotRecorded.refuse(
                "countdown", countdown, f"are seconds from 0 to {LONGEST_DELAY}"
            )
        if countdown:
            return float(countdown)
    if eta is None:
        return None
    left = (_instant(eta) - now).total_seconds()
    if left > LONGEST_DELAY:
        NotRecorded.refuse("eta", eta, f"is at most {LONGEST_DELAY} seconds ahead")
    return left if left > 0 else None


def _instant(eta: object) -> datetime:
    instant = moment_of(eta, UTC)
    if instant is None:
        NotRecorded.refuse("eta", eta, "is a datetime, or one as ISO 8601 writes it")
    return instant


def check_key(key: object) -> None:
    """Refuse a dedupe_key that PostgreSQL cannot hold in an index."""
    is_text = isinstance(key, str) and 0 < len(key) <= LONGEST_KEY
    if not is_text or not is_storable(str(key)):
        NotRecorded.refuse(
            "dedupe_key", key, f"is a text of 1 to {LONGEST_KEY} characters without NUL"
        )


def check_keys(entries: Sequence[Entry]) -> None:
    """Refuse a dedupe_key where one call sends several messages."""
    keys = [entry.key for entry in entries if entry.key is not None]
    if keys and len(entries) > 1:
        raise NotRecorded(
            f"dedupe_key {keys[0]!r} is of a signature that sends {len(entries)}"
            " messages; allowed is one"
        )


def check_alone(key: object, group_id: object) -> None:
    """Refuse a dedupe_key in a group: it may be another's message that is its part."""
    if group_id is not None:
        raise NotRecorded(
            f"dedupe_key {key!r} is of a message in a group or in the header of a"
            " chord, which would wait for ever for one that was not recorded; allowed"
            " are messages by themselves, and the first of a chain"
        )


def check(message: Message, limit: int) -> None:
    """Refuse a message that the table could not hold, or that is too large.

    Args:
        message: as Celery built it.
        limit: bytes, see the setting ``pecker_outbox_message_bytes``.
    """
    for name in _TEXTS:
        value = getattr(message, name)
        if not is_storable(value):
            NotRecorded.refuse(
                f"{name} of the message",
                value,
                "is text without NUL that UTF-8 can write",
            )
    priority = message.priority
    if priority is not None and priority not in range(HIGHEST_PRIORITY + 1):
        NotRecorded.refuse("priority", priority, f"is 0 to {HIGHEST_PRIORITY}, or None")
    size = len(message.body) + len(message.headers) + len(message.properties)
    if size > limit:
        raise MessageTooLarge(
            f"the message of {message.task!r} has {size} bytes;"
            f" pecker_outbox_message_bytes allows {limit}: hand over a reference to the"
            " data instead"
        )
