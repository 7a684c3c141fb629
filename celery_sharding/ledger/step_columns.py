"""Steps of shards as the columns of one statement."""

from __future__ import annotations

from collections.abc import Sequence

from celery_sharding.codec import storable
from celery_sharding.model import Code, Failure, Step

LAST = -1
"""Where the value stands that the processor returned at the end."""
RUNS = frozenset({Code.PUSHED, Code.RUNNING})


def columns(steps: Sequence[Step]) -> dict[str, object]:
    """Return the parameters of `write_steps`; each shard has one step."""
    shards = [step.shard for step in steps]
    if len({*shards}) < len(shards):
        message = f"a write has one step for each shard, not {sorted(shards)}"
        raise ValueError(message)
    return {
        "shards": shards,
        "cursors": [step.cursor for step in steps],
        "aheads": [step.ahead for step in steps],
        "dones": [step.done for step in steps],
        "failed": [step.failed for step in steps],
        "returned": [step.returned for step in steps],
        "forgotten": [step.shard for step in steps if step.forget],
        "statuses": [int(step.status) for step in steps],
        "counts": [step.count for step in steps],
        **_results(steps),
        **_failures(steps),
        **_mended(steps),
        **_retries(steps),
    }


def place_of(step: Step) -> int:
    """Return where the results of a step stand among those of its shard.

    By its cursor, so that a write which is repeated finds them there. A step that gives
    the shard back, and one that closes it, have places of their own: what they bring
    may have come since the last flush, without the cursor moving.
    """
    kind = 0 if step.status in RUNS else 1 if step.status is Code.WAITING else 2
    return 3 * step.cursor + kind


def _results(steps: Sequence[Step]) -> dict[str, object]:
    rows = [
        (step.shard, place, body)
        for step in steps
        for place, body in ((place_of(step), step.results), (LAST, step.result))
        if body is not None
    ]
    return {
        "result_shards": [shard for shard, _, _ in rows],
        "result_ats": [place for _, place, _ in rows],
        "results": [body for _, _, body in rows],
    }


def _failures(steps: Sequence[Step]) -> dict[str, object]:
    # The last word on an item counts; two in one statement would be refused.
    last: dict[tuple[int, int], tuple[int, Failure]] = {
        (failure.origin, failure.place): (step.shard, failure)
        for step in steps
        for failure in step.failures
    }
    failures = [failure for _, failure in last.values()]
    return {
        "error_steps": [shard for shard, _ in last.values()],
        "error_origins": [failure.origin for failure in failures],
        "error_places": [failure.place for failure in failures],
        "error_shards": [failure.shard for failure in failures],
        "error_layers": [failure.layer for failure in failures],
        "error_codes": [int(failure.code) for failure in failures],
        "error_attempts": [failure.attempt for failure in failures],
        "error_types": [storable(failure.type) for failure in failures],
        "error_messages": [storable(failure.message) for failure in failures],
        "error_tracebacks": [
            failure.traceback and storable(failure.traceback) for failure in failures
        ],
        "error_items": [failure.item for failure in failures],
    }


def _mended(steps: Sequence[Step]) -> dict[str, object]:
    rows = [(step.shard, *item) for step in steps for item in step.mended]
    return {
        "mended_steps": [shard for shard, _, _ in rows],
        "mended_origins": [origin for _, origin, _ in rows],
        "mended_places": [place for _, _, place in rows],
    }


def _retries(steps: Sequence[Step]) -> dict[str, object]:
    rows = [
        (step.shard, *step.retry)
        for step in steps
        if step.retry is not None and step.retry[0]
    ]
    return {
        "retry_shards": [shard for shard, _, _ in rows],
        # An array of arrays would need them to be of one length.
        "retry_picks": [
            "{" + ",".join(str(place) for place in places) + "}"
            for _, places, _ in rows
        ],
        "retry_delays": [float(delay) for _, _, delay in rows],
    }
