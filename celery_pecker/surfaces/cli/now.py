"""``pecker now``, or ``pecker`` alone: what is wrong, causes first."""

import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from celery_pecker.kernel.audit import current_user
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.surfaces.cli.context import NO, YES, Context, number
from celery_pecker.surfaces.console.exits import interrupted
from celery_pecker.surfaces.console.rendering import STYLES, visible
from celery_pecker.surfaces.findings.look import Report, look
from celery_pecker.surfaces.findings.model import Finding, Grade
from celery_pecker.surfaces.findings.view import CAUSES, NOW
from celery_pecker.surfaces.views.phrases import span

MARKS = {Grade.OK: "✓", Grade.WARN: "!", Grade.FAIL: "✗"}
AT_ONCE_US = 1_000_000
"""Microseconds: what has been so for less is shown without a length of time."""


@Context.command()
@click.option("--once", is_flag=True, help="One look, printed, on a terminal too.")
@number("--every", 0.5, 3_600.0, "On a terminal: seconds between two looks.", 2.0)
def now(context: Context, *, once: bool, every: float) -> None:
    """Show what is wrong: causes first, what follows below, and what ends it.

    On a terminal again and again, until q: the number before a cause does what ends it,
    once y has said so. Elsewhere once; ends with 1 if something is wrong.
    """
    if once or context.json or not context.console.is_terminal:
        report = look(context.project)
        document = {"wrong": report.wrong, "causes": report.causes}
        if not context.print_json({**document, "sentence": report.sentence}):
            context.console.print(drawn(report))
        if report.wrong:
            context.leave(NO)
        return
    with (
        interrupted(YES),
        single_keys(),
        Live(console=context.console, auto_refresh=False, screen=True) as live,
    ):
        watch(context, live, every)


def watch(context: Context, live: Live, every: float) -> None:
    """Look again and again, and do what keys ask for, until q."""
    since: dict[str, int] = {}
    asked: Finding | None = None
    said = ""
    while True:
        report = look(context.project, since)
        since = {one.check: one.since_us or 0 for one in report.findings}
        acts = [one for one in report.causes if one.act]
        # Above all: what does not fit on the screen is cut off below.
        above = Text(said, "bold")
        if asked is not None:
            act = NOW.acts[asked.act][0]
            above = Text(f"{act.label}? {act.asks}\ny or n", "reverse")
        screen = Group(above, drawn(report, numbers=True))
        live.update(screen, refresh=True)
        key = pressed(every)
        if key == "q":
            return
        if asked is not None and key:
            said = done(context, asked) if key == "y" else ""
            asked = None
        elif key.isdigit() and 0 < int(key) <= len(acts):
            asked, said = acts[int(key) - 1], ""


def done(context: Context, finding: Finding) -> str:
    """Do what ends a cause; return what came of it."""
    act = NOW.acts[finding.act][0]
    try:
        with context.recorded(f"now {act.name}", finding.about or finding.check):
            came = act.do(context.project, [finding.about], current_user(), CAUSES)
    except PeckerError as error:
        return f"Not done: {error}"
    return " ".join(came.said)


def drawn(report: Report, *, numbers: bool = False) -> RenderableType:
    """Return a look as a terminal shows it; with the number of each act."""
    bad = report.wrong > 0
    lines = [Text(report.sentence, STYLES["bad" if bad else "done"])]
    number = 0
    for cause in report.causes:
        label = ""
        if cause.act:
            number += 1
            key = f"[{number}] " if numbers else ""
            label = key + NOW.acts[cause.act][0].label
        lines += _cause(cause, report.now_us, label)
    return Group(*lines)


def _cause(cause: Finding, now_us: int, label: str) -> Iterator[Text]:
    style = STYLES[CAUSES.states[cause.state]]
    length = now_us - (cause.since_us or now_us)
    since = f", for {span(length)}" if length > AT_ONCE_US else ""
    line = Text(f"{MARKS[cause.grade]} {cause.title}{since}: ", style)
    yield line.append(visible(cause.text), "default")
    if cause.advice:
        yield Text(f"  → {visible(cause.advice)}")
    if label:
        yield Text(f"  {label}", "bold")
    for one in cause.consequences:
        yield Text(f"  ↳ {visible(one.text)}", "dim")


@contextmanager
def single_keys() -> Iterator[None]:
    """Read keys one by one, without Enter."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def pressed(within: float) -> str:
    """Return the key that is pressed within so many seconds; none: an empty text."""
    ready, _, _ = select.select([sys.stdin], [], [], within)
    return sys.stdin.read(1) if ready else ""
