"""From pictures to recordings: pure."""

from __future__ import annotations

from throttle.chart.recording import Moment, Recording
from throttle.overview.model import Picture, State, Status


class Recorder:
    """Keeps what a chart needs of each picture."""

    def __init__(self) -> None:
        self._moments: dict[str, list[Moment]] = {}
        self._admitted: dict[str, tuple[int, dict[str, int]]] = {}
        """By database: how many until now, and what each worker had reported last."""
        self._gaps: list[tuple[float, float]] = []
        self._away_since: float | None = None
        self._asked = 0.0
        self._estimator = ""

    def add(self, at: float, picture: Picture) -> None:
        """Add the picture to the recording, so many seconds after its beginning."""
        self._estimator = picture.estimator
        before, self._asked = self._asked, at
        if picture.away:
            # Nothing is known since the last picture, not only since this question.
            if self._away_since is None:
                self._away_since = before
            return
        if self._away_since is not None:
            self._gaps.append((self._away_since, at))
            self._away_since = None
        for status in picture.databases:
            self._moments.setdefault(status.name, []).append(
                Moment(
                    at=at,
                    traffic=status.traffic.operations,
                    limit=in_force(status),
                    held=status.held,
                    admitted=self._let_in(status),
                )
            )

    def recordings(self) -> tuple[Recording, ...]:
        """Return a recording for each database, those with a limit first."""
        gaps = list(self._gaps)
        if self._away_since is not None:
            gaps.append((self._away_since, self._asked))
        return tuple(
            Recording(
                database=name,
                estimator=self._estimator,
                moments=tuple(moments),
                gaps=tuple(gaps),
            )
            for name, moments in sorted(
                self._moments.items(), key=lambda one: (not one[1][-1].limit, one[0])
            )
        )

    def _let_in(self, status: Status) -> int:
        """Return what was admitted since the beginning.

        Workers count since their own start: one that is new has begun at nothing, one
        that has gone takes nothing away.
        """
        first = status.name not in self._admitted
        total, before = self._admitted.get(status.name, (0, {}))
        now = {worker.id: worker.admitted for worker in status.workers}
        if not first:
            total += sum(
                max(count - before.get(key, 0), 0) for key, count in now.items()
            )
        self._admitted[status.name] = (total, {**before, **now})
        return total


def in_force(status: Status) -> float:
    """Return the limit in force, operations per second; 0 if there is none."""
    if status.operations is None or status.state is State.UNLIMITED:
        return 0.0
    return status.operations * status.factor
