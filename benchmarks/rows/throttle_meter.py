"""What counting costs a statement: µs more, by who counts, and what reading costs.

Two ways to see it. *Alone*: a cursor that sends nothing, so that what is left is the
wrapper. *All the way*: `select 1` on a real server; what is under a microsecond drowns
there, which is the point of it. CPU time of the caller's thread, in turns; medians of
the differences of neighbours.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median, quantiles
from typing import Any

from benchmarks.cputime import cpu_us, no_collection
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.throttle.counted import (
    PLAIN,
    Ask,
    AsyncAsk,
    Clients,
    async_idle,
    cursors,
    django,
    engines,
    idle,
)
from throttle.meter import Meter

ROW = "throttle_meter"
ALONE = 500
"""Statements to a turn that go nowhere."""
TURN = 100
"""Statements to a turn that go to the server."""
WARM = 3
"""Turns of each that do not count."""
REAL = {"psycopg": cursors, "SQLAlchemy": engines, "Django": django}
CHILDREN, NAMES, READINGS = 16, 8, 500


def run(run: Run) -> None:
    """Measure wrappers alone, then each client, then the reader."""
    turns = max(run.plan.calls // 10, 60)
    for what, measured in (("psycopg", alone), ("psycopg, async", async_alone)):
        run.trial(
            ROW,
            f"{what}, alone",
            turns * ALONE * 6e-5,
            partial(measured, run, turns),
            what=what,
            way="alone",
        )
    for what, clients in REAL.items():
        run.trial(
            ROW,
            what,
            run.plan.calls * 6e-4 + 1,
            partial(all_the_way, run, clients),
            what=what,
            way="all the way",
        )
    run.trial(ROW, "reading", 2, reading, what="reading", way="reading")


def alone(run: Run, turns: int) -> Sample:
    """Return what each wrapper takes, in µs, with nothing within it."""
    with ExitStack() as stack, no_collection():
        clients = idle(stack, run.servers.dsn)
        return _differences(clients, partial(cpu_us, times=ALONE), turns, run.tell)


def async_alone(run: Run, turns: int) -> Sample:
    """Return the same for what is awaited."""

    async def measure() -> Sample:
        loop: dict[str, list[float]] = {}
        async with async_idle(run.servers.dsn) as asks:
            for turn in range(turns + WARM):
                for who, ask in asks.items():
                    us = await _async_cpu_us(ask, ALONE)
                    if turn >= WARM:
                        loop.setdefault(who, []).append(us)
                run.tell()
        return _more(loop)

    with no_collection():
        return asyncio.run(measure())


def all_the_way(run: Run, clients: Callable[[ExitStack, str], Clients]) -> Sample:
    """Return what a statement costs its thread more, in µs of CPU time."""
    with ExitStack() as stack, no_collection():
        made = clients(stack, run.servers.dsn)
        turns = max(run.plan.calls // TURN, 40)
        return _differences(made, partial(cpu_us, times=TURN), turns, run.tell)


def reading() -> Sample:
    """Return what the reader takes for a worker of 16 children and eight databases."""
    meter = Meter()
    meter.share(CHILDREN)
    shared: Any = meter._shared  # noqa: SLF001 — children would only do this elsewhere
    rows = [shared.row(index) for index in range(CHILDREN)]
    for row in rows:
        row.take()
        row.begin(1, 0)
    took = []
    for _ in range(READINGS):
        for row in rows:
            lane = row.lane(0)
            for name in range(NAMES):
                lane[row.place(f"database {name}")] += 1
        began = time.thread_time_ns()
        meter.read()
        took.append((time.thread_time_ns() - began) / 1e3)
    return {"us": {"reading": round(median(took), 1)}}


def _differences(
    clients: Clients,
    us: Callable[[Ask], float],
    turns: int,
    tell: Callable[[], None],
) -> Sample:
    found: dict[str, list[float]] = {}
    for turn in range(turns + WARM):
        for who, ask in clients.asks.items():
            clients.switch(who)
            took = us(ask)
            if turn >= WARM:
                found.setdefault(who, []).append(took)
        tell()
    return _more(found)


def _more(found: dict[str, list[float]]) -> Sample:
    """Return the median of what each takes more than its neighbour as it is."""
    plain = found.pop(PLAIN)
    more = {
        who: [one - base for one, base in zip(took, plain, strict=True)]
        for who, took in found.items()
    }
    return {
        "plain_us": round(median(plain), 3),
        "us": {who: round(median(these), 3) for who, these in more.items()},
        "quartiles_us": {
            who: [round(one, 3) for one in quantiles(these, n=4)]
            for who, these in more.items()
        },
    }


async def _async_cpu_us(ask: AsyncAsk, times: int) -> float:
    began = time.thread_time_ns()
    for _ in range(times):
        await ask()
    return (time.thread_time_ns() - began) / times / 1e3
