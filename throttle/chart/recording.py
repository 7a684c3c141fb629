"""What was seen of a database, moment by moment; as JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from throttle.errors import Misconfigured

VERSION = 1


class Moment(NamedTuple):
    """What was seen at one look."""

    at: float
    """Seconds since the recording began."""
    traffic: float
    """Operations per second, by the estimator of the recording."""
    limit: float
    """The limit in force, operations per second."""
    held: int
    admitted: int
    """Since the recording began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A run of one database."""

    database: str
    title: str = ""
    """Above its picture; default the database."""
    estimator: str
    moments: tuple[Moment, ...]
    gaps: tuple[tuple[float, float], ...] = ()
    """From when to when nothing was seen: the store was away."""

    @property
    def seconds(self) -> float:
        """Return how long it took."""
        return self.moments[-1].at if self.moments else 0.0

    @property
    def peak(self) -> float:
        """Return the most traffic."""
        return max((one.traffic for one in self.moments), default=0.0)

    @property
    def over(self) -> float:
        """Return the most traffic, as a part of the limit in force."""
        parts = (one.traffic / one.limit for one in self.moments if one.limit > 0)
        return max(parts, default=0.0)

    @property
    def most_held(self) -> int:
        """Return the most tasks that waited at once."""
        return max((one.held for one in self.moments), default=0)

    @property
    def admitted(self) -> int:
        """Return how many tasks were let in."""
        return self.moments[-1].admitted if self.moments else 0

    @property
    def use(self) -> float | None:
        """Return the mean part of the limit used while tasks waited; None: none did."""
        parts = [one.traffic / one.limit for one in self.moments if one.held]
        return sum(parts) / len(parts) if parts else None


def written(recordings: Iterable[Recording]) -> str:
    """Return recordings as one JSON document; figures by column, which is shorter."""
    document = {
        "version": VERSION,
        "recordings": [
            {
                "database": one.database,
                "title": one.title,
                "estimator": one.estimator,
                "gaps": one.gaps,
                **{
                    name: [round(moment[place], 3) for moment in one.moments]
                    for place, name in enumerate(Moment._fields)
                },
            }
            for one in recordings
        ],
    }
    return json.dumps(document, separators=(",", ":")) + "\n"


def read(text: str) -> tuple[Recording, ...]:
    """Return the recordings of a JSON document; Misconfigured if it is none."""
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            message = f"a recording of version {document['version']!r}, not {VERSION}"
            raise Misconfigured(message)
        return tuple(_recording(one) for one in document["recordings"])
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, Misconfigured):
            raise
        message = f"this is no recording of `throttle record`: {error!r}"
        raise Misconfigured(message) from error


def _recording(one: dict[str, Sequence[float]]) -> Recording:
    columns = zip(*(one[name] for name in Moment._fields), strict=True)
    return Recording(
        database=str(one["database"]),
        title=str(one["title"]),
        estimator=str(one["estimator"]),
        moments=tuple(
            Moment(float(at), float(traffic), float(limit), int(held), int(admitted))
            for at, traffic, limit, held, admitted in columns
        ),
        gaps=tuple((float(gap[0]), float(gap[1])) for gap in one["gaps"]),  # type: ignore[index]  # pairs
    )
