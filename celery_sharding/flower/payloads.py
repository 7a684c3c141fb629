"""Jobs, shards and errors as JSON for the scripts of the pages. Pure.

Instants in microseconds, lengths of time in seconds. A grid comes as runs of letters,
so that 10,000 shards are some hundred bytes while they go in order, and 10 kB at worst.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kombu.utils.json import dumps

from celery_pecker.kernel.clock import to_us
from celery_sharding.ledger.grid import LETTERS, Grid
from celery_sharding.ledger.rows import (
    ErrorRow,
    JobRow,
    LayerRow,
    ShardRow,
)
from celery_sharding.overview import MEANINGS, Snapshot, reason, verdict

LAYERS = 60
"""Layers that a browser gets, at most: those about the one that runs."""
LONGEST = 400
"""Letters of an item, or of an error's message."""
TRACE = 8_000
CODES: Mapping[str, tuple[int, str, str]] = {
    letter: (int(code), *MEANINGS[code]) for letter, code in LETTERS.items()
}
"""What each letter of a grid stands for."""


def us(instant: datetime | None) -> int | None:
    """Return an instant in microseconds."""
    return None if instant is None else to_us(instant)


def job(row: JobRow) -> dict[str, Any]:
    """Return a job as its row in the list."""
    progress, stands = row.progress(), verdict(row)
    return {
        "job": row.job,
        "id": row.task_id,
        "leader": row.leader,
        "task": row.task,
        "key": row.key,
        "state": stands.state.value,
        "why": stands.why[:LONGEST],
        "paused": row.paused,
        "ended": row.stage.value == "ended",
        "run": row.run,
        "total": row.total,
        "done": row.done,
        "failed": row.failed,
        "layer": progress.layer,
        "layers": row.layers,
        "concurrency": row.concurrency,
        "held": row.held,
        "executors": row.executors,
        "rate": round(progress.rate, 3),
        "eta": None if progress.eta is None else progress.eta.total_seconds(),
        "elapsed": round(row.elapsed, 3),
        "submitted": us(row.submitted_at),
        "started": us(row.started_at),
        "until": us(row.decided_at),
        "deadline": us(row.deadline_at),
    }


def detail(seen: Snapshot) -> dict[str, Any]:
    """Return a job with all that its page shows."""
    first, last = around(seen.row.layer, len(seen.layers))
    shown = {one.layer for one in seen.layers[first:last]}
    return {
        "now": us(seen.row.now),
        "row": job(seen.row),
        "options": seen.row.options,
        "error": error_of(seen.row),
        "layers": [layer(one) for one in seen.layers[first:last]],
        "all_layers": len(seen.layers),
        "grid": grid(seen.grid, shown),
        "codes": CODES,
        "counts": {str(int(code)): many for code, many in seen.grid.counts.items()},
        "stragglers": [shard(one) for one in seen.stragglers],
        "errors": [error(one) for one in seen.errors],
        "more_errors": seen.more_errors,
    }


def around(running: int, layers: int) -> tuple[int, int]:
    """Return from which layer to which a browser gets them."""
    first = min(max(running - LAYERS // 2, 0), max(layers - LAYERS, 0))
    return first, first + LAYERS


def layer(row: LayerRow) -> dict[str, Any]:
    """Return a layer."""
    return {
        **row._asdict(),
        "started_at": us(row.started_at),
        "closed_at": us(row.closed_at),
    }


def grid(of: Grid, shown: set[int]) -> dict[str, Any]:
    """Return how the shards of these layers stand: (layer, first shard, runs)."""
    return {
        "per": of.per,
        "lines": [
            (line.layer, line.first, line.compact)
            for line in of.lines
            if line.layer in shown
        ],
    }


def shard(row: ShardRow) -> dict[str, Any]:
    """Return a shard."""
    return {
        **row._asdict(),
        "code": int(row.code),
        "claimed_at": us(row.claimed_at),
        "ended_at": us(row.ended_at),
        "not_before": us(row.not_before),
    }


def error(row: ErrorRow) -> dict[str, Any]:
    """Return a failed item; one that is long is cut."""
    failure = row.error
    return {
        "origin": row.origin,
        "place": row.place,
        "shard": failure.shard,
        "layer": failure.layer,
        "code": int(failure.code),
        "attempt": failure.attempt,
        "type": failure.type,
        "message": failure.message[:LONGEST],
        "traceback": (failure.traceback or "")[-TRACE:],
        "item": None if row.place < 0 else as_text(failure.item),
        "worker": failure.worker,
        "at": us(failure.at),
    }


def error_of(row: JobRow) -> dict[str, Any] | None:
    """Return why a job failed; None if it did not."""
    if not row.error:
        return None
    trace = str(row.error.get("traceback") or "")
    return {"message": reason(row)[:LONGEST], "traceback": trace[-TRACE:]}


def as_text(item: Any) -> str:
    """Return an item as JSON, cut where it is long."""
    text = json.dumps(json.loads(dumps(item)), ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
