"""Charts of the results: one function a chart, from JSON alone."""

from __future__ import annotations

from pathlib import Path

from benchmarks.charts import (
    anatomy,
    asking,
    bars,
    claims,
    cost,
    counting,
    deadline,
    failover,
    flower,
    groomer,
    holding,
    outbox,
    pace,
    precision,
    sharding,
    snapshot,
)
from benchmarks.results import Results

CHARTS = {
    "pace": (pace.draw, "pace"),
    "cost": (cost.draw, "pace"),
    "precision": (precision.draw, "precision"),
    "failover": (failover.draw, "failover"),
    "doubles": (bars.draw_doubles, "doubles"),
    "asked": (bars.draw_asked, "asked"),
    "claims": (claims.draw, "claims"),
    "deadline": (deadline.draw, "deadline"),
    "flower": (flower.draw, "flower"),
    "snapshot": (snapshot.draw, "snapshot"),
    "throttle_meter": (counting.draw_meter, "throttle_meter"),
    "anatomy": (anatomy.draw, "anatomy"),
    "throttle_loop": (holding.draw_loop, "throttle_loop"),
    "throttle_hook": (holding.draw_hook, "throttle_hook"),
    "throttle_gate": (asking.draw_gate, "throttle_gate"),
    "throttle_step": (asking.draw_step, "throttle_step"),
    "sharding_many": (sharding.draw_many, "sharding_many"),
    "sharding_kill": (sharding.draw_kill, "sharding_kill"),
    "groomer": (groomer.draw, "groomer"),
    "outbox_peers": (outbox.draw_peers, "outbox_peers"),
}
"""By name: who draws it, and from which row."""


def draw(results: Results, folder: Path, *, kind: str = "svg") -> list[str]:
    """Return the names of the charts that are in the folder now."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, (chart, row) in CHARTS.items():
        if samples := results.samples(row):
            chart(samples, folder / f"{name}.{kind}")
            drawn.append(name)
    return drawn
