"""So many per-second entries on one replica: who keeps up, and how late.

Delivered/due: of all slots that were due in the window, those whose message arrived.
The peers promise no grid and their messages name no slot; of their messages those are
counted that arrived in the window. What can be asked of all is the lag: how far a
message lies behind a grid of seconds that begins with its entry's first in the window.
One that has not come at the end of the window counts with what it is late by then.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import asdict
from functools import partial

import numpy as np
import psycopg

from benchmarks.plan import Stint
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules import cost
from benchmarks.schedules.arrivals import Arrivals, spread
from benchmarks.schedules.cost import Meter, Written
from benchmarks.schedules.trial import Trial

ROW = "pace"
WARM = 3.0
"""Seconds from the first message on that are not counted: connections, first pages."""
SAID = 300
"""Of the log of a peer that ended by itself: its end."""
STRAGGLERS = 2.0
"""Seconds after the window in which its last messages may still come."""


def run(run: Run) -> None:
    """Measure what the plan asks for, one after the other."""
    for stint, number in run.plan.interleaved():
        if run.entries and stint.entries not in run.entries:
            continue
        if run.servers.broker(stint.broker) is None:
            run.note(f"{stint.broker} does not answer: not measured")
            continue
        label = f"{stint.subject}, {stint.entries:,} entries, {stint.broker}"
        run.trial(
            ROW,
            f"{label}, run {number + 1}",
            stint.lasts,
            partial(measure, run, stint),
            **asdict(stint),
            run=number,
        )


def measure(run: Run, stint: Stint, *, series: bool = False) -> Sample:
    """Return the figures of one trial."""
    servers = run.servers
    with (
        Trial(
            servers,
            entries=stint.entries,
            broker=stint.broker,
            patient=not stint.subject.ours,
        ) as trial,
        psycopg.connect(servers.dsn, autocommit=True) as connection,
    ):
        scheduler = trial.launch(stint.subject)
        # A peer that is overtaxed may be silent for long: the window begins then, and
        # the row shows what it did.
        given_up = () if stint.subject.ours else (AssertionError, RuntimeError)
        with suppress(*given_up):
            trial.await_ready(scheduler, stint.subject)
        # half a second off the whole one, which is no grid of anybody's
        since = math.ceil(time.time() + WARM) + 0.5
        until = since + stint.seconds
        meter = Meter(servers, scheduler.pid, trial.consumer_pid)
        trial.wait_until(since, run.tell)
        meter.start()
        before = Written.read(connection, trial.name)
        trial.wait_until(until, run.tell)
        after = Written.read(connection, trial.name)
        # read before the stragglers: what is spent is spent in the window
        spent = meter.stop(stint.entries * stint.seconds, stint.seconds)
        trial.wait_until(until + STRAGGLERS, run.tell)
        log = scheduler.life_log()
        ended = scheduler.exit_code is not None
        trial.stop(scheduler)
        arrivals = trial.count()
    if stint.subject.ours and not len(arrivals.between(since, until).arrived):
        msg = f"nothing arrived; the log ends: {log[-500:]}"
        raise RuntimeError(msg)
    found = figures(arrivals, stint, since, until)
    asked, delivered = stint.entries * stint.seconds, found["delivered"]
    for key, value in spent.items():
        if key.endswith("_per_1000") and value is not None:
            spent[key] = round(value * asked / delivered, 5) if delivered else None
    found |= spent | ({"ended": log[-SAID:]} if ended else {})
    if stint.subject.ours:
        found |= cost.of_wakes(cost.wakes(log, since, until))
        found["hot_share"] = after.hot_share_since(before)
        wal = after.wal - before.wal
        found["wal_bytes_per_slot"] = round(wal / max(delivered, 1), 1)
    if series:
        window = arrivals.between(since, until).slots()
        found["gaps_s"] = [round(float(gap), 5) for gap in window.gaps()]
        found["lag_s"] = [round(float(lag), 5) for lag in window.lag()]
    return found


def figures(arrivals: Arrivals, stint: Stint, since: float, until: float) -> Sample:
    """Return what the arrivals say."""
    window = arrivals.between(since, until)
    slots = window.slots()
    due = stint.entries * stint.seconds
    delivered = len(slots.arrived)
    dated = slots.dated
    last = slots.last_lateness()
    open_ = slots.outstanding(since, until, stint.entries)
    return {
        "due": due,
        "delivered": delivered,
        "share": round(delivered / due, 5),
        "doubled": len(window.arrived) - delivered if dated else None,
        "rate": round(delivered / stint.seconds, 2),
        "gap_s": spread(slots.gaps(), digits=4),
        "message_ms": spread(slots.lateness(), scale=1e3) if dated else None,
        "lag_ms": spread(np.append(slots.lag(), open_), scale=1e3),
        "last_ms": spread(last, scale=1e3),
        "last_series_ms": [round(float(one) * 1e3, 1) for one in last],
    }
