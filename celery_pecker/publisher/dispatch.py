"""What is asked of the publisher: one slot of one entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """One slot to put on the wire."""

    name: str
    """The entry's name, as given to `Publisher.prepare`."""
    task_id: str
    header: Mapping[str, object]
    """The value of `headers['pecker']`; made of what JSON knows."""
    expires: datetime | None = None
    """An absolute, aware instant. None: the `expires` of the entry or of its task
    counts from the host's clock, as in Celery's beat."""
