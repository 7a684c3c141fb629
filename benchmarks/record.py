"""How a task under measure says what it did: a record of a fixed size."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

RECORD = struct.Struct("<ddIi")
"""Began, ended (host's clock, which is the clock of Redis too), statements, number."""
RUN = np.dtype([("began", "f8"), ("ended", "f8"), ("statements", "u4"), ("nr", "i4")])
Runs = NDArray[np.void]


def each_second(runs: Runs, since: float, until: float) -> NDArray[np.float64]:
    """Return the statements of each whole second of the clock between two instants.

    A run's statements are spread evenly over it; the parts of a run are summed by
    differences of what was done by the end of each second, so that long runs cost no
    more than short ones.
    """
    edges = np.arange(np.ceil(since), np.floor(until) + 1)
    return np.diff([_by(runs, edge) for edge in edges])


def busiest(runs: Runs, since: float, until: float, step: float = 0.1) -> float:
    """Return the most statements of any second, wherever it begins (by steps)."""
    edges = np.arange(since, until, step)
    done = np.array([_by(runs, edge) for edge in edges])
    width = round(1 / step)
    return float((done[width:] - done[:-width]).max())


def _by(runs: Runs, edge: float) -> float:
    lasted = np.maximum(runs["ended"] - runs["began"], 1e-9)
    part = np.clip((edge - runs["began"]) / lasted, 0.0, 1.0)
    return float((part * runs["statements"]).sum())
