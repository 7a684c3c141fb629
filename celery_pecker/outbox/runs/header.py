"""What the message of a row says: which row, and which epoch it had. Pure."""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass

logger = logging.getLogger(__name__)

HEADER = "pecker_outbox"


@dataclass(frozen=True, slots=True)
class RowRef:
    """The row that a message was sent for."""

    id: int
    epoch: int
    outbox: str
    """The name of its outbox."""
    task_id: str
    """Tells it from a row of the same number in another table."""


def add(headers: str, ref: RowRef) -> str:
    """Return a message's headers, as JSON, that name its row.

    Raises:
        ValueError: they are no JSON object.
    """
    known = json.loads(headers)
    if not isinstance(known, dict):
        message = "the headers are no JSON object"
        raise ValueError(message)  # noqa: TRY004  # as of what is no JSON at all
    known[HEADER] = asdict(ref)
    return json.dumps(known, separators=(",", ":"))


def read(header: object, task_id: object) -> RowRef | None:
    """Return the row that a header names; None if it is not of this task.

    A task that passes its headers on to its subtasks makes no new runs.
    """
    if not isinstance(header, Mapping) or header.get("task_id") != task_id:
        return None
    try:
        return RowRef(
            id=int(header["id"]),
            epoch=int(header["epoch"]),
            outbox=str(header["outbox"]),
            task_id=str(task_id),
        )
    except (KeyError, TypeError, ValueError) as error:
        logger.warning("pecker: header %r cannot be read: %r", HEADER, error)
        return None
