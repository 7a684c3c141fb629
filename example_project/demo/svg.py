"""A few SVG elements and the colours of the picture, in light and in dark."""

from __future__ import annotations

from html import escape

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1c2733",
    "soft": "#5d6b7a",
    "line": "#dfe4ea",
    "a": "#2166c4",
    "b": "#c96a00",
    "none": "#8a94a0",
    "bad": "#c9252d",
    "good": "#1a7f45",
    "kill": "#c9252d",
    "freeze": "#0e7f99",
    "restart": "#7a4fc0",
}
DARK = {
    "paper": "#12181f",
    "ink": "#e8edf2",
    "soft": "#9aa8b6",
    "line": "#2a343f",
    "a": "#6aa8ff",
    "b": "#ffa63d",
    "none": "#77828e",
    "bad": "#ff6b6b",
    "good": "#4fcf86",
    "kill": "#ff6b6b",
    "freeze": "#45c7e6",
    "restart": "#b491f5",
}
# Colours are attributes, which every renderer understands; the dark scheme is CSS,
# which overrides attributes in the renderers that know about schemes.
STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue",
       "DejaVu Sans", sans-serif; font-size: 13px; }
.title { font-size: 21px; font-weight: 650; }
.small { font-size: 11.5px; }
.figure { font-size: 25px; font-weight: 650; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.strong { font-weight: 650; }
@media (prefers-color-scheme: dark) {
"""


def style() -> str:
    """Return the style sheet."""
    rules = [
        f".f-{name} {{ fill: {value}; }} .s-{name} {{ stroke: {value}; }}"
        for name, value in DARK.items()
    ]
    return STYLE + "\n".join(rules) + "\n}"


def text(x: float, y: float, said: str, kind: str = "", fill: str = "ink") -> str:
    """Return a line of text that begins (or, by its kind, centres or ends) at x."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{LIGHT[fill]}"'
        f' class="f-{fill} {kind}">{escape(said)}</text>'
    )


def box(  # noqa: PLR0913 - a rectangle has as many
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str,
    *,
    opacity: float = 1.0,
    radius: float = 0.0,
) -> str:
    """Return a filled rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}"'
        f' height="{height:.1f}" rx="{radius:g}" fill="{LIGHT[fill]}"'
        f' fill-opacity="{opacity:g}" class="f-{fill}"/>'
    )


def line(  # noqa: PLR0913 - two points, and how they are joined
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    stroke: str,
    *,
    width: float = 1.0,
    dash: str = "",
) -> str:
    """Return a straight line."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        f' stroke="{LIGHT[stroke]}" stroke-width="{width:g}"{dashed}'
        f' class="s-{stroke}"/>'
    )


def dot(x: float, y: float, radius: float, fill: str) -> str:
    """Return a filled circle, set off from what lies under it."""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{LIGHT[fill]}"'
        f' stroke="{LIGHT["paper"]}" class="f-{fill} s-paper"/>'
    )


def ring(x: float, y: float, radius: float, stroke: str) -> str:
    """Return an open circle on paper."""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{LIGHT["paper"]}"'
        f' stroke="{LIGHT[stroke]}" stroke-width="2" class="f-paper s-{stroke}"/>'
    )


def cross(x: float, y: float, size: float) -> str:
    """Return a cross, for something that is missing."""
    return line(x - size, y - size, x + size, y + size, "bad", width=2.5) + line(
        x - size, y + size, x + size, y - size, "bad", width=2.5
    )


def area(points: list[tuple[float, float]], base: float, fill: str) -> str:
    """Return the surface between the points and a base line, with its upper edge."""
    if not points:
        return ""
    edge = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    closed = f"{points[0][0]:.1f},{base:.1f} {edge} {points[-1][0]:.1f},{base:.1f}"
    return (
        f'<polygon points="{closed}" fill="{LIGHT[fill]}" fill-opacity="0.16"'
        f' class="f-{fill}"/>'
        f'<polyline points="{edge}" fill="none" stroke="{LIGHT[fill]}"'
        f' stroke-width="1.5" class="s-{fill}"/>'
    )


# Hidden by its attribute, so that renderers without animations show the whole picture.
SWEEP = """<style>
@media (prefers-reduced-motion: no-preference) {
.sweep { animation: sweep 12s linear 0.5s 1 backwards; }
}
@keyframes sweep {
from { visibility: visible; }
to { visibility: visible; transform: translateX(WIDTHpx); }
}
</style>"""


def sweep(x: float, y: float, width: float, height: float) -> str:
    """Return paper over a part of the picture that is drawn off it once, left to right.

    What stands there appears in the order in which it happened.
    """
    return "\n".join(
        [
            SWEEP.replace("WIDTH", f"{width:g}"),
            '<g class="sweep" visibility="hidden">',
            box(x, y, width, height, "paper"),
            line(x, y, x, y + height, "soft"),
            "</g>",
        ]
    )


def document(width: float, height: float, title: str, parts: list[str]) -> str:
    """Return the whole picture, on paper of its own."""
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
            f"<title>{escape(title)}</title>",
            f"<style>{style()}</style>",
            box(0, 0, width, height, "paper", radius=10),
            *parts,
            "</svg>\n",
        ]
    )
