"""What is asked of the publisher: one slot of one entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime


@dataclass(slots=True, kw_only=True)
class Dispatch:
    """One slot to put on the wire. Not to be changed (see schedules.model.Slot)."""

    name: str
    """The entry's name, as given to `Publisher.prepare`."""
    task_id: str
    header: Mapping[str, object]
    """The value of `headers['pecker']`; made of what JSON knows."""
    expires: datetime | None = None
    """An absolute, aware instant. None: the `expires` of the entry or of its task
    counts from the host's clock, as in Celery's beat."""
    ends: float | None = None
    """By which monotonic moment a run in this process must have ended. None: ever."""
    latest: float | None = None
    """After which monotonic moment a run in this process does not start any more."""


def names_in(batch: Iterable[Dispatch], task_ids: AbstractSet[str]) -> frozenset[str]:
    """Return the names all of whose slots in the batch are among `task_ids`.

    An entry that catches up has several slots in one batch.
    """
    names: dict[str, bool] = {}
    for dispatch in batch:
        among = dispatch.task_id in task_ids
        names[dispatch.name] = names.get(dispatch.name, True) and among
    return frozenset(name for name, among in names.items() if among)


SAMPLE = Dispatch(name="", task_id="0" * 36, header={})
"""A slot that is never sent: an entry of which it cannot be filled in is unusual."""
