"""How long after its deadline does a run end, in each pool, behind a black hole?

Real workers, messages with a deadline. The proxies before the servers are open when a
run begins and swallow everything a moment later. What a pool cannot interrupt
(`time.sleep` or a bare loop in a thread, a bare loop in a greenlet) is not tried: see
docs/explanation/deadlines.md. Of two greenlets that loop, the second comes too late to
begin: it is refused, and counted as that.
"""

from __future__ import annotations

from functools import partial

from benchmarks.deadlines.bounded import GIVEN, Bounded
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.arrivals import spread

ROW = "deadline"
STARTS = 6.0
ASKS = ("psycopg", "redis", "requests", "httpx")
POOLS = {
    "prefork": ("time.sleep", "a loop", *ASKS),
    "threads": ("a loop with check()", *ASKS),
    "gevent": ("time.sleep", "a loop with check()", *ASKS),
    "solo": ("time.sleep", "a loop", *ASKS),
    "asyncio": ("asyncio.sleep", "httpx.AsyncClient"),
}
SOLO = {"solo", "asyncio"}
"""One run at a time."""


def run(run: Run) -> None:
    """Measure each pool."""
    for pool, cases in POOLS.items():
        run.trial(
            ROW,
            pool,
            lasts(pool, run.plan.overruns),
            partial(measure, run, pool, cases),
            pool=pool,
        )


def lasts(pool: str, runs: int) -> float:
    """Return about how long a pool takes."""
    waves = runs / (1 if pool in SOLO else 2)
    return STARTS + len(POOLS[pool]) * waves * (GIVEN + 0.05)


def measure(run: Run, pool: str, cases: tuple[str, ...]) -> Sample:
    """Return by how much the runs of each case were over, in ms."""
    found: dict[str, Sample] = {}
    overs: list[float] = []
    kind = "solo" if pool == "asyncio" else pool
    with Bounded(run.servers, kind, at_once=1 if pool in SOLO else 2) as place:
        for case in cases:
            ends = place.end(case, run.plan.overruns)
            overs += ends.late
            found[case] = {
                "over_ms": spread(ends.late, scale=1e3),
                "overs_ms": [round(one * 1e3, 2) for one in ends.late],
                "silent": ends.silent,
                "refused": ends.refused,
            }
            run.tell()
    silent = sum(case["silent"] for case in found.values())
    return {
        "runs": len(overs) + silent,
        "silent": silent,
        "refused": sum(case["refused"] for case in found.values()),
        "over_ms": spread(overs, scale=1e3),
        "cases": found,
    }
