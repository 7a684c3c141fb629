"""Read all that is shown of one job."""

from __future__ import annotations

from dataclasses import dataclass

from celery_sharding.ledger import Ledger
from celery_sharding.ledger.grid import Grid
from celery_sharding.ledger.rows import ErrorRow, JobRow, LayerRow, ShardRow
from celery_sharding.model import Progress
from celery_sharding.overview.verdict import Verdict, verdict

STRAGGLERS = 10
ERRORS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that is shown of a job at once."""

    row: JobRow
    layers: list[LayerRow]
    grid: Grid
    stragglers: list[ShardRow]
    errors: list[ErrorRow]
    more_errors: bool
    """Whether there are errors behind these."""

    @property
    def progress(self) -> Progress:
        """Return how far it is."""
        return self.row.progress(tuple(layer.progress for layer in self.layers))

    @property
    def verdict(self) -> Verdict:
        """Return how it stands, in a word and a sentence."""
        return verdict(self.row)


def take_snapshot(
    ledger: Ledger,
    task_id: str,
    *,
    errors_after: tuple[int, int] = (-1, -1),
    errors: int = ERRORS,
) -> Snapshot:
    """Return how a job stands, in five statements; raise JobNotFound."""
    reading = ledger.reading
    row = reading.job(task_id)
    layers = reading.layers(row.leading)
    failed = reading.errors(row.leading, after=errors_after, most=errors + 1)
    return Snapshot(
        row=row,
        layers=layers,
        grid=reading.grid(row.leading),
        stragglers=reading.stragglers(row.leading, most=STRAGGLERS),
        errors=failed[:errors],
        more_errors=len(failed) > errors,
    )
