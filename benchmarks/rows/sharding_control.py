"""A job with 100,000 queued shards is paused, resumed and cancelled.

Statements are those of the caller's connection in the server's own log (of the embedded
server only), from the call to its return. Effective: the last item that was begun after
the call, as the workers wrote it down; an item takes 5 ms.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.results import Sample
from benchmarks.rows.asked import logged
from benchmarks.run import Run
from benchmarks.sharding import ledger, ours, touched
from benchmarks.sharding.field import Field
from celery_pecker.testing import eventually

ROW = "sharding_control"
ITEM = 0.005
QUIET = 3.0
"""Seconds without an item: it stands."""
_SAID = re.compile(rb"LOG:  (?:statement|execute [^:]+): ([^\n]*)")


def run(run: Run) -> None:
    """Measure one job: paused, resumed, cancelled."""
    run.trial(
        ROW,
        f"{run.plan.queued:,} shards",
        60,
        partial(measure, run),
        shards=run.plan.queued,
    )


def measure(run: Run) -> Sample:
    """Return statements and seconds of each."""
    with Field(run.servers, run.tell) as field:
        field.start(2, SECONDS=ITEM)
        dsn, log = run.servers.dsn, run.servers.postgres_log
        asks = {"DSN": logged(dsn)} if log is not None else {}
        app: Any = ours.build(field.given(**asks))
        result = app.tasks["ours.slow1"].delay(run.plan.queued)
        eventually(
            lambda: touched.latest(field.folder), 120.0, "the first item is begun"
        )
        field.rest(2.0)
        result.progress  # noqa: B018  # once, so that a connection stands
        queued = ledger.unfinished(dsn, field.name)
        paused = _call(field, log, result.pause)
        resumed = _resumed(field, log, result.resume)
        field.rest(1.0)
        cancelled = _call(field, log, result.cancel, result.ready)
        state = result.state
        app.close()
    return {
        "queued": queued,
        "pause": paused,
        "resume": resumed,
        "cancel": cancelled,
        "state": state,
    }


def _call(
    field: Field,
    log: Path | None,
    act: Callable[[], Any],
    told: Callable[[], bool] | None = None,
) -> Sample:
    """Return what the call asked, and when the last item after it was begun.

    ``told``: and when this was true.
    """
    said, took, at = _heard(log, act)
    told_s = None
    if told is not None and field.until(told, 60.0):
        told_s = round(time.time() - at, 3)
    field.until(lambda: time.time() - touched.latest(field.folder) > QUIET, 60.0)
    last = touched.latest(field.folder)
    return {
        "statements": said,
        "call_ms": round(took * 1e3, 1),
        "effective_s": round(max(last - at, 0.0), 3),
        "told_s": told_s,
    }


def _resumed(field: Field, log: Path | None, act: Callable[[], Any]) -> Sample:
    said, took, at = _heard(log, act)
    came = eventually(
        lambda: touched.earliest_after(field.folder, at) or 0.0,
        60.0,
        "items are begun again",
    )
    return {
        "statements": said,
        "call_ms": round(took * 1e3, 1),
        "effective_s": round(came - at, 3),
    }


def _heard(
    log: Path | None, act: Callable[[], Any]
) -> tuple[list[str] | None, float, float]:
    before = log.stat().st_size if log is not None else 0
    at, began = time.time(), time.perf_counter()
    act()
    took = time.perf_counter() - began
    if log is None:
        return None, took, at
    found = _SAID.findall(log.read_bytes()[before:])
    return [one.decode().strip()[:60] for one in found], took, at
