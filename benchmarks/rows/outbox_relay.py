"""How fast one relay empties the table, and what a message costs.

The relay is a process of its own and waits when the messages are committed, all at
once; the time counts from that commit until the table is empty.
"""

from __future__ import annotations

import time
from functools import partial

from benchmarks.outbox.field import Field
from benchmarks.results import Sample
from benchmarks.run import Run

ROW = "outbox_relay"
SLOWEST = 300
"""Messages a second below which it is given up."""


def run(run: Run) -> None:
    """Measure on each broker that is there."""
    for broker in ("redis", "rabbitmq"):
        if run.servers.broker(broker) is None:
            continue
        lasts = 8 + run.plan.recorded / 4_000
        run.trial(ROW, broker, lasts, partial(relay, run, broker), broker=broker)


def relay(run: Run, broker: str) -> Sample:
    """Return messages a second, and processor time and WAL of each."""
    rows = run.plan.recorded
    field = Field(run.servers, broker)
    with field.open():
        field.start_relay()
        field.ask("checkpoint")
        before = field.cpu()
        field.fill(rows)
        began = time.monotonic()
        since = field.ask("select pg_current_wal_insert_lsn()")
        took = field.empty(rows / SLOWEST + 30) - began
        wal = field.ask(
            "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %(since)s)",
            since=since,
        )
        after = field.cpu()
    return {
        "rows": rows,
        "seconds": round(took, 2),
        "rate": round(rows / took),
        "cpu_us": {
            who: round((after[who] - before[who]) / rows * 1e6, 1) for who in after
        },
        "wal_bytes": round(float(wal) / rows),
    }
