"""What all charts have in common: colours that everybody tells apart, plain paper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

INK, FAINT, RULE = "#1b1f24", "#5b636d", "#d8dce1"
# Okabe and Ito: told apart with any colour vision, and in grey by their lightness
COLOURS = {
    "pecker": "#0072b2",
    "pecker, slow lane": "#56b4e9",
    "celery beat": "#d55e00",
}
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


@contextmanager
def paper(
    path: Path, title: str, under: str, *, height: float, **layout: Any
) -> Iterator[tuple[Any, Any]]:
    """Give a figure and its axes; drawn to the file at the end."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(WIDTH, height), **layout)
        figure.text(0.02, 1 - 0.16 / height, title, size=13.5, weight="bold", va="top")
        figure.text(0.02, 1 - 0.48 / height, under, size=10, color=FAINT, va="top")
        yield figure, axes
        figure.tight_layout(rect=(0.01, 0, 0.99, 1 - 0.78 / height))
        # no date: the same results give the same file
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, dpi=110, metadata=metadata)
        plt.close(figure)
