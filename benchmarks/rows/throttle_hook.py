"""What the gate costs tasks that it lets through.

Two workers of one process each, the same but for the gate, get batches of tasks that do
nothing, in turns. A pair is one batch each; what counts is the ratio of their
throughput, its 95 % interval, and the difference of the main process' processor time
per task, which holds all there is: hook, thread that reports, reading of the meter.
The same with tasks that no route names. What the thread that reports takes is what the
threads beside the main one take more with the gate.
"""

from __future__ import annotations

import random
import time
from functools import partial

import numpy as np

from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.yard import Crew, Yard

ROW = "throttle_hook"
PLENTY = 1e7
"""A limit that nobody reaches."""
WARM = 500
TASKS = {"throttled.nothing": "", "throttled.free": ", no route"}


def run(run: Run) -> None:
    """Measure the hook by itself, then what it costs on both pools."""
    run.trial(
        ROW,
        "the hook alone",
        run.plan.openings * (8 + run.plan.batch / 500),
        partial(alone, run),
        pool="the hook alone",
    )
    for pool in ("prefork", "threads"):
        for what, label in TASKS.items():
            run.trial(
                ROW,
                pool + label,
                20 + run.plan.pairs * run.plan.batch / 300,
                partial(measure, run, pool, what),
                pool=pool + label,
            )


def alone(run: Run) -> Sample:
    """Return what the hook itself takes, timed around it in a real worker."""
    found = []
    with Yard(run.ground, run.tell) as yard:
        for _ in range(run.plan.openings):
            crew = yard.crew(1, LIMIT=PLENTY, TIMED=1)
            batch(yard, crew, WARM)
            batch(yard, crew, run.plan.batch)
            found.append(float((crew.folder / "hook").read_text()) / 1e3)
            crew.processes[0].kill()
    return {"runs": len(found), "hook_us": round(float(np.median(found)), 2)}


def measure(run: Run, pool: str, what: str) -> Sample:
    """Return the ratios and the differences, pair by pair."""
    chance = random.Random(1)
    with Yard(run.ground, run.tell) as yard:
        crews = [
            yard.crew(1, pool=pool, processes=2),
            yard.crew(1, pool=pool, processes=2, LIMIT=PLENTY),
        ]
        for crew in crews:
            batch(yard, crew, WARM, what)
        ratios, more, plain, processor = [], [], [], []
        spent = [0.0, 0.0]
        began, beside = time.monotonic(), [crew.beside_cpu() for crew in crews]
        for _ in range(run.plan.pairs):
            order = [0, 1]
            chance.shuffle(order)
            took = {at: batch(yard, crews[at], run.plan.batch, what) for at in order}
            ratios.append(took[0][0] / took[1][0])
            more.append(took[1][1] - took[0][1])
            plain.append(took[0][1])
            processor.append(took[0][2] / took[1][2])
            spent = [
                crew.beside_cpu() - was for crew, was in zip(crews, beside, strict=True)
            ]
        lasted = time.monotonic() - began
    middle, low, high = interval(np.array(ratios))
    cpu, least, most = interval(np.array(processor))
    return {
        "pairs": run.plan.pairs,
        "batch": run.plan.batch,
        "ratio": round(middle, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "cpu": round(cpu, 4),
        "cpu_low": round(least, 4),
        "cpu_high": round(most, 4),
        "main_us": round(float(np.median(more)) * 1e6, 2),
        "plain_us": round(float(np.median(plain)) * 1e6, 1),
        "beside_ms": round((spent[1] - spent[0]) / lasted * 1e3, 2),
        "ratios": [round(one, 4) for one in ratios],
        "more_us": [round(one * 1e6, 1) for one in more],
    }


def batch(
    yard: Yard, crew: Crew, tasks: int, what: str = "throttled.nothing"
) -> tuple[float, float, float]:
    """Return the seconds of a batch, the main process' per task, and all processes'."""
    crew.forget()
    spent, every = crew.main_cpu(), crew.all_cpu()
    began = time.monotonic()
    yard.feed(crew, what, tasks)
    yard.until(lambda: crew.done() >= tasks, 120, f"{tasks} tasks ran")
    took = time.monotonic() - began
    return took, (crew.main_cpu() - spent) / tasks, (crew.all_cpu() - every) / tasks


def interval(
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval, by drawing pairs again (bootstrap)."""
    chance = np.random.default_rng(1)
    drawn = chance.choice(values, (10_000, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(values.mean()), float(low), float(high)
