"""The story and five more acts, and a report: ``python -m example_project.demo``.

Ends with 0 if no call was dropped, no slot and no reminder ran twice or was lost, each
ended call was billed once, each split call was healed, and each media server is watched
at the end; with 1 if not, with 2 if the stage could not be built, and with 130 after a
Ctrl-C. In each case nothing is left.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.errors import PeckerError
from example_project.demo import acts, interrupts, picture, summary
from example_project.demo.chronicle import Chronicle
from example_project.demo.dashboard import Dashboard
from example_project.demo.plain import Plain
from example_project.demo.report import Run, Tally, tally
from example_project.demo.scene import Scene
from example_project.demo.servers import Servers
from example_project.demo.stage import NotReady, Stage
from example_project.demo.story import SHORT, Pace, Story
from example_project.demo.timeline import Timeline
from example_project.demo.trouble import Trouble
from example_project.demo.watch import Watch
from example_project.pace import DEMO_DROPS_AFTER
from example_project.store import Store

MOST_CALLS = 1_000
"""Each has an agent that listens on a port of its own."""
MOST_MEETINGS = 4_000
"""There are as many in the tables."""


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m example_project.demo",
        description="A meeting service keeps its calls alive while schedulers die.",
    )
    parser.add_argument("--calls", type=int, default=200, help="live calls (200)")
    parser.add_argument("--seed", type=int, default=1, help="of faults and latencies")
    parser.add_argument(
        "--picture",
        type=Path,
        default=Path("demo-timeline.svg"),
        help="where the timeline is drawn (demo-timeline.svg)",
    )
    parser.add_argument("--plain", action="store_true", help="lines, no live screen")
    parser.add_argument(
        "--outage",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="PostgreSQL stays down for so long at its restart (0)",
    )
    parser.add_argument(
        "--stay", action="store_true", help="go on after the story, until Ctrl-C"
    )
    parser.add_argument(
        "--meetings", type=int, default=4_000, help="of the rush hour (4000)"
    )
    parser.add_argument("--calm", action="store_true", help="the story only")
    parser.add_argument("--act", choices=acts.ACTS, help="one of the other acts only")
    parser.add_argument("--short", action="store_true", help="shorter rests between")
    given = parser.parse_args(arguments)
    if not 1 <= given.calls <= MOST_CALLS:
        parser.error(f"--calls {given.calls}: allowed are 1 to {MOST_CALLS}")
    if not 1 <= given.meetings <= MOST_MEETINGS:
        parser.error(f"--meetings {given.meetings}: allowed are 1 to {MOST_MEETINGS}")
    if not given.picture.resolve().parent.is_dir():
        parser.error(f"--picture {given.picture}: there is no such folder")
    return given


def play(given: argparse.Namespace, console: Console) -> int:
    """Return the exit code; the report was shown and the picture drawn."""
    scene = Scene(calls=given.calls, drops_after=DEMO_DROPS_AFTER)
    live = console.is_terminal and not given.plain
    with contextlib.ExitStack() as kept:
        with contextlib.ExitStack() as seen:
            seen.enter_context(
                Dashboard(scene, console) if live else Plain(scene, console)
            )
            scene.tell("PostgreSQL and Redis start")
            with interrupts.undisturbed():
                base = kept.enter_context(Servers())
                stage = kept.enter_context(
                    Stage(base, calls=given.calls, seed=given.seed)
                )
                kept.callback(interrupts.deafen)
            chronicle = on_stage(given, scene, base, stage)
        summary.show(console, chronicle)
        given.picture.write_text(picture.draw(chronicle))
        console.print(f"\nThe timeline as a picture: {given.picture}")
        failures = [*chronicle.failures]
        if not given.calm:
            stage.close()
            failures += acts.play(acts.ACTS, given, scene, base, console)
    return verdict(console, failures)


def play_alone(given: argparse.Namespace, console: Console) -> int:
    """Return the exit code of one act; its report was shown."""
    scene = Scene(calls=given.calls, drops_after=DEMO_DROPS_AFTER)
    with contextlib.ExitStack() as kept:
        with interrupts.undisturbed():
            base = kept.enter_context(Servers())
            kept.callback(interrupts.deafen)
        failures = acts.play((given.act,), given, scene, base, console)
    return verdict(console, failures)


def verdict(console: Console, failures: Sequence[str]) -> int:
    """Say whether each promise was kept, as the last lines; return the exit code."""
    console.print()
    if not failures:
        console.print(
            "VERDICT: each promise was kept (exit code 0)", style="bold green"
        )
        return 0
    said = f"VERDICT: {len(failures)} failed (exit code 1)"
    console.print(said, style="bold red")
    for failure in failures:
        console.print(f"  {failure}", markup=False, highlight=False, soft_wrap=True)
    return 1


def on_stage(
    given: argparse.Namespace, scene: Scene, base: Servers, stage: Stage
) -> Chronicle:
    """Return what was done, and what was to be seen when the story was over."""
    scene.tell(f"{given.calls} calls and their remote parts")
    store = Store(stage.dsn)
    control = stage.start_parts(store)
    timeline = Timeline(store)
    watch = Watch(stage.dsn, timeline, control, stage.name_of)
    trouble = Trouble(control, stage.dsn, calls=given.calls, seed=given.seed)
    scene.timeline, scene.watch = timeline, watch
    scene.schedulers = stage.schedulers
    scene.tell("two schedulers, two workers and Flower start")
    stage.start_celery()
    scene.tell(f"look at it in Flower: {stage.flower_url}")
    with watch, trouble:
        stage.begin_calls(store, control, scene.drops_after)
        story = Story(
            stage,
            base,
            timeline,
            scene,
            pace=replace(SHORT if given.short else Pace(), outage=given.outage),
        )
        story.play()
    pulse = _pulse(store, timeline, story.brokerless)
    sight = watch.look()
    watch.close()
    store.close()
    if given.stay:
        scene.tell(f"the service goes on: {stage.flower_url} until Ctrl-C")
        interrupts.wait()
    return Chronicle(
        account=tally(
            sight.runs,
            timeline.events,
            since_us=timeline.began_us,
            until_us=timeline.ended_us,
        ),
        # The local task's act comes after the slots that are counted.
        events=tuple(e for e in timeline.events if e.began_us < timeline.ended_us),
        sight=sight,
        calls=given.calls,
        drops_after=scene.drops_after,
        pulse=pulse,
        ended=stage.ended(),
    )


def _pulse(
    store: Store, timeline: Timeline, stretch: tuple[int, int] | None
) -> Tally | None:
    """Return the account of the local task while there was no broker."""
    if stretch is None:
        return None
    runs = [
        Run(due_us=to_us(due_at), began_us=to_us(began_at), winner="")
        for due_at, began_at in store.rows("pulses")
    ]
    since_us, until_us = stretch
    return tally(runs, timeline.events, since_us=since_us, until_us=until_us)


def main(arguments: list[str] | None = None) -> None:
    """Play, and end with the exit code."""
    interrupts.listen()
    console = Console()
    try:
        given = options(arguments)
        played = play_alone if given.act else play
        sys.exit(played(given, console))
    except (NotReady, PeckerError) as error:
        console.print(f"FAILED: {error}", markup=False, style="bold red")
        console.print("VERDICT: not played to its end (exit code 2)", style="bold red")
        sys.exit(2)


if __name__ == "__main__":
    main()
