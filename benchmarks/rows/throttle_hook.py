"""What the gate costs tasks that it lets through.

Equal workers differ by up to 8 %, for as long as they live: where they came to lie in
memory, and on which core. So each pair is two workers that are new, the same but for
the gate, of which now the one and now the other starts first. They get short batches of
tasks that do nothing, in turns: A B B A. What counts is the ratio of their throughput
and of the processor time that all of their processes took, over all pairs, each with
its 95 % interval. The same with tasks that no route names, with the guard on Redis
alone, which comes with the gate, and with two workers without a gate: what that shows
is the measurement's own.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.throttle.workers import Crew, Spent, ThrottledWorkers

ROW = "throttle_hook"
PLENTY = 1e7
"""A limit that nobody reaches."""
WARM = 500
ROUTED, FREE = "throttled.nothing", "throttled.free"
GATE: dict[str, object] = {"LIMIT": PLENTY}
TRIALS: tuple[tuple[str, str, str, dict[str, object]], ...] = (
    ("prefork", "", ROUTED, GATE),
    ("prefork", ", no route", FREE, GATE),
    ("prefork", ", the guard on Redis alone", ROUTED, {"GUARD": 1}),
    ("prefork", ", both without the gate", ROUTED, {}),
    ("threads", "", ROUTED, GATE),
    ("threads", ", no route", FREE, GATE),
    ("threads", ", both without the gate", ROUTED, {}),
)
STARTING = 5.0
"""Seconds in which two workers are started and warm, about."""


def run(run: Run) -> None:
    """Measure the hook by itself, then what it costs on both pools."""
    run.trial(
        ROW,
        "the hook alone",
        run.plan.openings * (8 + run.plan.batch / 500),
        partial(alone, run),
        pool="the hook alone",
    )
    for pool, label, what, other in TRIALS:
        run.trial(
            ROW,
            pool + label,
            run.plan.pairs * (STARTING + run.plan.batch / 500),
            partial(measure, run, pool, what, other),
            pool=pool + label,
        )


def alone(run: Run) -> Sample:
    """Return what the hook itself takes, timed around it in a real worker."""
    found = []
    with ThrottledWorkers(run.servers, run.tell) as throttled:
        for _ in range(run.plan.openings):
            crew = throttled.crew(1, LIMIT=PLENTY, TIMED=1)
            batch(throttled, crew, WARM)
            batch(throttled, crew, run.plan.batch)
            found.append(float((crew.folder / "hook").read_text()) / 1e3)
            crew.processes[0].kill()
    return {"runs": len(found), "hook_us": round(float(np.median(found)), 2)}


def measure(run: Run, pool: str, what: str, other: dict[str, object]) -> Sample:
    """Return the ratios and the differences, pair by pair."""
    took: list[list[float]] = []
    spent: list[list[Spent]] = []
    with ThrottledWorkers(run.servers, run.tell) as throttled:
        for number in range(run.plan.pairs):
            one = pair(throttled, run.plan.batch, pool, what, other, number)
            took.append([one[0][0], one[1][0]])
            spent.append([one[0][1], one[1][1]])
    seconds = np.array(took)
    parts = np.array(spent) / run.plan.batch * 1e6
    sums = parts.sum(axis=2)
    middle, low, high = interval(seconds[:, 0] / seconds[:, 1])
    cpu, least, most = interval(sums[:, 0] / sums[:, 1])
    more = parts[:, 1] - parts[:, 0]
    main, threads, children = more.mean(axis=0)
    return {
        "pairs": run.plan.pairs,
        "batch": run.plan.batch,
        "ratio": round(middle, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "cpu": round(cpu, 4),
        "cpu_low": round(least, 4),
        "cpu_high": round(most, 4),
        "main_us": round(float(main + threads), 2),
        "main_within": [round(one, 1) for one in interval(more[:, :2].sum(axis=1))[1:]],
        "threads_us": round(float(threads), 2),
        "children_us": round(float(children), 2),
        "plain_us": round(float(parts[:, 0, :2].sum(axis=1).mean()), 1),
        "plain_all_us": round(float(sums[:, 0].mean()), 1),
        "ratios": [round(float(one), 4) for one in seconds[:, 0] / seconds[:, 1]],
        "more_us": [round(float(one), 1) for one in sums[:, 1] - sums[:, 0]],
    }


def pair(
    throttled: ThrottledWorkers,
    tasks: int,
    pool: str,
    what: str,
    other: dict[str, object],
    number: int,
) -> list[tuple[float, Spent]]:
    """Return seconds and processor time of a plain worker, and of the other one.

    Both are new; which of them is the first to start and to work changes from pair to
    pair.
    """
    order = (0, 1) if number % 2 else (1, 0)
    crews: dict[int, Crew] = {}
    for at in order:
        env = other if at else {}
        crews[at] = throttled.crew(1, pool=pool, processes=2, seed=number, **env)
    took = [0.0, 0.0]
    spent = [Spent(0.0, 0.0, 0.0)] * 2
    for at in order:
        batch(throttled, crews[at], WARM, what)
    for at in (*order, *reversed(order)):
        seconds, cpu = batch(throttled, crews[at], tasks // 2, what)
        took[at] += seconds
        spent[at] = Spent(*(a + b for a, b in zip(spent[at], cpu, strict=True)))
    for crew in crews.values():
        throttled.dismiss(crew)
    return list(zip(took, spent, strict=True))


def batch(
    throttled: ThrottledWorkers, crew: Crew, tasks: int, what: str = ROUTED
) -> tuple[float, Spent]:
    """Return the seconds of a batch, and the processor time of its worker."""
    crew.forget()
    before = crew.cpu()
    began = time.monotonic()
    throttled.feed(crew, what, tasks)
    throttled.until(lambda: crew.done() >= tasks, 120, f"{tasks} tasks ran")
    return time.monotonic() - began, crew.cpu().minus(before)


def interval(
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval, by drawing pairs again (bootstrap)."""
    chance = np.random.default_rng(1)
    drawn = chance.choice(values, (10_000, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(values.mean()), float(low), float(high)
