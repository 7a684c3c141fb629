"""Calls and observers over time (SVG).

A line for each call, red while its peers are apart; a strip for each observer, in one
colour for each host, open where nobody looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from example_project.demo.frame import seconds
from example_project.demo.svg import box, document, line, text
from example_project.groomer.hosts import KILLED
from example_project.groomer.lives import Watched
from example_project.groomer.play import SERVERS, Seen

WIDTH = 1000.0
LEFT, RIGHT, TOP = 84.0, 962.0, 108.0
ROW = 2.2
"""Height of a call's line."""
GAP = 16.0
"""Between the calls of two media servers."""
TONES = ("a", "b", "none")
STRIP, BETWEEN = 10.0, 8.0
"""Height of an observer's strip, and what is left below it."""
HEAD = 30.0
"""Above the strips."""
HOST_TONES = ("good", "restart", "b")


def draw(seen: Seen) -> str:
    """Return the picture as the text of an SVG file."""
    lasts = max(seen.lasted, 1.0)
    bottom = TOP + seen.calls * ROW + SERVERS * GAP
    under = bottom + HEAD + SERVERS * (STRIP + BETWEEN)
    height = under + 46.0

    def x(at: float) -> float:
        return LEFT + min(max(at / lasts, 0.0), 1.0) * (RIGHT - LEFT)

    parts = [
        text(28, 42, f"{seen.calls} calls on {SERVERS} media servers", "title"),
        text(28, 66, _account(seen), "", "soft"),
        *_frozen(x(seen.frozen[0]), x(seen.frozen[1]), bottom),
    ]
    splits: dict[int, list[tuple[float, float]]] = {}
    for call, begin, end in seen.splits:
        splits.setdefault(call, []).append((begin, end))
    for call in range(1, seen.calls + 1):
        y = _y(call, seen.calls)
        tone = TONES[call % SERVERS]
        parts.append(line(LEFT, y, RIGHT, y, tone, width=0.6))
        for begin, end in splits.get(call, ()):
            width = max(x(end) - x(begin), 2.0)
            parts.append(box(x(begin), y - ROW / 2, width, ROW, "bad"))
    for server in range(SERVERS):
        y = _y(server or SERVERS, seen.calls) + 12
        parts.append(text(LEFT - 8, y, f"server {server + 1}", "small end", "soft"))
    parts.extend(seconds(lasts, x, under + 14))
    parts.extend(_strips(seen.watched, x, bottom + HEAD, under))
    legend = "seconds; red: a split call, or a server that no observer looks at"
    parts.append(text(28, height - 12, legend, "small", "soft"))
    return document(WIDTH, height, "Calls that a frozen server splits", parts)


def _account(seen: Seen) -> str:
    longest = f", p99 {seen.percentile(0.99):.1f} s" if seen.splits else ""
    return (
        f"{len(seen.splits)} splits{longest}; {seen.invited} invitations,"
        f" {seen.twice} of them twice; {seen.pulled} peers pulled back"
    )


def _frozen(left: float, right: float, bottom: float) -> Iterable[str]:
    """Give the band of the time in which the first server stood still."""
    yield box(left, TOP - 14, right - left, bottom - TOP + 14, "freeze", opacity=0.1)
    yield text(left + 3, TOP - 2, "server 1 frozen", "small", "freeze")


def _strips(
    watched: Watched, x: Callable[[float], float], top: float, bottom: float
) -> Iterable[str]:
    """Give the lives of observers, the gaps between them, and what was done."""
    hosts = sorted({life.pid for life in watched.lives})
    for server in range(1, SERVERS + 1):
        y = top + (server - 1) * (STRIP + BETWEEN)
        yield text(LEFT - 8, y + STRIP, f"observer {server}", "small end", "soft")
        for life in watched.lives:
            if life.server == server:
                left, right = x(life.began), x(life.ended)
                tone = HOST_TONES[hosts.index(life.pid) % len(HOST_TONES)]
                yield box(left, y, max(right - left, 1.0), STRIP, tone, opacity=0.7)
        for gap in watched.gaps():
            if gap.server == server:
                left, right = x(gap.began), x(gap.ended)
                yield box(left, y, right - left, STRIP, "kill", opacity=0.25)
                long = f"{gap.ended - gap.began:.1f} s"
                yield text((left + right) / 2, y + STRIP - 1, long, "small middle")
    for event in watched.events:
        tone = "kill" if event.what == KILLED else "restart"
        yield line(x(event.at), top - 8, x(event.at), bottom, tone, dash="3 3")
        yield text(x(event.at) + 3, top - 6, f"host {event.what}", "small", tone)


def _y(call: int, calls: int) -> float:
    """Return the height of a call's line; those of one server lie together."""
    server = call % SERVERS
    many = -(-calls // SERVERS)
    return TOP + server * (many * ROW + GAP) + (call // SERVERS) * ROW + GAP / 2
