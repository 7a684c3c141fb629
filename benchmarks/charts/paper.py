"""What all charts have in common: colours that everybody tells apart, plain paper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.results import Sample

INK, FAINT, RULE = "#1b1f24", "#5b636d", "#d8dce1"
# Okabe and Ito: told apart with any colour vision, and in grey by their lightness
COLOURS = {
    "pecker": "#0072b2",
    "pecker, slow lane": "#56b4e9",
    "pecker in a worker": "#8a8f98",
    "celery beat": "#d55e00",
    "RedBeat": "#e69f00",
    "django-celery-beat": "#009e73",
    "sqlalchemy-celery-beat": "#cc79a7",
}
MARKERS = dict(zip(COLOURS, "os*D^vX", strict=True))
BAND = "#f3e9c6"
STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "svg.hashsalt": "celery-pecker",
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
}
WIDTH = 8.2
FITS = 68
"""Letters of a title that fit at its usual size."""


def load(samples: list[Sample]) -> str:
    """Return how busy the machine was, for the line under a chart's title."""
    found = [one["load"] for one in samples if "load" in one]
    return f" (load {min(found):g} to {max(found):g})" if found else ""


def beside(
    axes: Any, text: str, point: tuple[float, float], *, weight: str = "normal"
) -> None:
    """Write a text at the right of a point, such as the end of a bar."""
    axes.annotate(
        text,
        point,
        (5, 0),
        textcoords="offset points",
        va="center",
        color=INK,
        weight=weight,
    )


@contextmanager
def paper(
    path: Path, title: str, under: str, *, height: float, **layout: Any
) -> Iterator[tuple[Any, Any]]:
    """Give a figure and its axes; drawn to the file at the end."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(WIDTH, height), **layout)
        size = min(13.5, 13.5 * FITS / len(title))
        figure.text(0.02, 1 - 0.16 / height, title, size=size, weight="bold", va="top")
        figure.text(0.02, 1 - 0.48 / height, under, size=10, color=FAINT, va="top")
        yield figure, axes
        figure.tight_layout(rect=(0.01, 0, 0.99, 1 - 0.78 / height))
        # no date: the same results give the same file
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, dpi=110, metadata=metadata)
        plt.close(figure)
