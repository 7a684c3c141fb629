"""A few SVG elements, and colours that colour-blind people tell apart."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1c2733",
    "soft": "#5d6b7a",
    "line": "#e3e8ed",
    "traffic": "#0072b2",
    "limit": "#1c2733",
    "over": "#c44601",
    "held": "#bd8600",
    "away": "#868f86",
}
DARK = {
    "paper": "#12181f",
    "ink": "#e8edf2",
    "soft": "#9aa8b6",
    "line": "#2a343f",
    "traffic": "#56b4e9",
    "limit": "#e8edf2",
    "over": "#ff8552",
    "held": "#f0b429",
    "away": "#77828e",
}
# Colours are attributes, which every renderer understands; the dark scheme is CSS,
# which overrides attributes in the renderers that know about schemes.
STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue",
       "DejaVu Sans", sans-serif; font-size: 12px; }
.title { font-size: 20px; font-weight: 650; }
.head { font-size: 15px; font-weight: 650; }
.figure { font-size: 21px; font-weight: 650; }
.small { font-size: 11px; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.strong { font-weight: 650; }
"""
Points = list[tuple[float, float]]


def style() -> str:
    """Return the style sheet."""
    rules = "".join(
        f".f-{name} {{ fill: {value}; }} .s-{name} {{ stroke: {value}; }}\n"
        for name, value in DARK.items()
    )
    return f"{STYLE}@media (prefers-color-scheme: dark) {{\n{rules}}}\n"


def text(x: float, y: float, label: str, kind: str = "", fill: str = "ink") -> str:
    """Return a line of text that begins (or, by its kind, centres or ends) at x."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{LIGHT[fill]}"'
        f' class="f-{fill} {kind}">{escape(label)}</text>'
    )


def box(
    at: tuple[float, float], size: tuple[float, float], fill: str, opacity: float = 1.0
) -> str:
    """Return a filled rectangle."""
    return (
        f'<rect x="{at[0]:.1f}" y="{at[1]:.1f}" width="{max(size[0], 0):.1f}"'
        f' height="{max(size[1], 0):.1f}" fill="{LIGHT[fill]}"'
        f' fill-opacity="{opacity:g}" class="f-{fill}"/>'
    )


def edge(points: Points, stroke: str, *, width: float = 1.5, dash: str = "") -> str:
    """Return a line through the points."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<polyline points="{_joined(points)}" fill="none" stroke="{LIGHT[stroke]}"'
        f' stroke-width="{width:g}" stroke-linejoin="round"{dashed}'
        f' class="s-{stroke}"/>'
    )


def area(points: Points, base: float, fill: str, opacity: float = 0.2) -> str:
    """Return the surface between the points and a base line."""
    closed = [(points[0][0], base), *points, (points[-1][0], base)]
    return (
        f'<polygon points="{_joined(closed)}" fill="{LIGHT[fill]}"'
        f' fill-opacity="{opacity:g}" class="f-{fill}"/>'
    )


def document(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Return the whole picture, on paper of its own."""
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
            f"<title>{escape(title)}</title>",
            f"<style>{style()}</style>",
            box((0, 0), (width, height), "paper"),
            *parts,
            "</svg>\n",
        ]
    )


def _joined(points: Points) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
