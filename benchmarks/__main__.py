"""The command line: run rows, or publish what was measured."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape

from benchmarks import publish, tables
from benchmarks.profiles import PLANS
from benchmarks.results import HOME, Results
from benchmarks.rows import (
    anatomy,
    asked,
    claims,
    consumer,
    deadline,
    deadline_cost,
    doubles,
    failover,
    flower,
    groomer,
    observers_100k,
    observers_blackout,
    observers_drain,
    observers_endless,
    observers_freeze,
    observers_join,
    observers_kill,
    observers_outage,
    observers_quiet,
    outbox_call,
    outbox_commits,
    outbox_deferred,
    outbox_hundred,
    outbox_latency,
    outbox_million,
    outbox_peers,
    outbox_relay,
    pace,
    precision,
    sharding_control,
    sharding_flower,
    sharding_items,
    sharding_kill,
    sharding_many,
    sharding_open,
    sharding_poison,
    sharding_post,
    sharding_short,
    sharding_submit,
    snapshot,
    statements,
    stored_busy,
    stored_edit,
    stored_start,
    throttle_gate,
    throttle_hold,
    throttle_hook,
    throttle_loop,
    throttle_meter,
    throttle_step,
    throttle_turns,
)
from benchmarks.run import Run
from benchmarks.servers import start_servers

ROWS: dict[str, ModuleType] = {
    row.ROW: row
    for row in (
        *(consumer, pace, precision, failover, doubles, asked),
        *(claims, deadline, deadline_cost, flower, statements, snapshot, anatomy),
        *(throttle_meter, throttle_gate, throttle_step),
        *(throttle_loop, throttle_turns, throttle_hook, throttle_hold),
        *(sharding_many, sharding_submit, sharding_items, sharding_kill),
        *(sharding_poison, sharding_post, sharding_control, sharding_flower),
        *(sharding_short, sharding_open),
        *(outbox_relay, outbox_latency, outbox_call),
        *(outbox_commits, outbox_deferred, outbox_million, outbox_hundred),
        outbox_peers,
        groomer,
        *(stored_edit, stored_start, stored_busy),
        *(observers_quiet, observers_kill, observers_join, observers_drain),
        *(observers_freeze, observers_outage, observers_blackout),
        *(observers_100k, observers_endless),
    )
}


def main(words: list[str]) -> int:
    """Do what the command line says; return the exit code."""
    asked = _parser().parse_args(words)
    folder = asked.into or (HOME / "quick" if asked.profile == "quick" else HOME)
    results = Results(folder)
    console = Console()
    rows = asked.rows or list(ROWS)
    if "publish" in rows:
        for path in publish.publish(results):
            console.print(f"written: {path}", highlight=False)
        return 0
    plan = PLANS[asked.profile]
    times = plan.seconds()
    about = sum(times[row] for row in rows) / 60
    console.print(f"{plan.name} profile, {', '.join(rows)}: about {about:.0f} minutes")
    began = time.monotonic()
    with start_servers() as servers:
        run = Run(
            servers=servers,
            plan=plan,
            results=results,
            console=console,
            entries=frozenset(asked.entries or ()),
            only=frozenset(asked.only or ()),
            resume=asked.resume,
        )
        for nth, row in enumerate(rows):
            left = sum(times[one] for one in rows[nth:]) / 60
            run.note(
                f"[bold]{row}[/]: about {times[row] / 60:.1f} minutes,"
                f" {left:.0f} to the end"
            )
            ROWS[row].run(run)
    console.print(Markdown(tables.report(results, rows)))
    console.print(
        f"{(time.monotonic() - began) / 60:.1f} minutes; figures in {folder};"
        " `python -m benchmarks publish` puts them into the documentation"
    )
    for failure in run.failures:
        console.print(f"[red]failed[/] {escape(failure)}", highlight=False)
    return 1 if run.failures else 0


def _parser() -> argparse.ArgumentParser:
    minutes = ", ".join(
        f"{name} {sum(plan.seconds().values()) / 60:.0f}"
        for name, plan in PLANS.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Ours and the peers, side by side, on real servers.",
        epilog=f"minutes for all rows: {minutes}",
    )
    parser.add_argument(
        "rows",
        nargs="*",
        choices=[*ROWS, "publish", []],
        metavar="ROW",
        help=f"{', '.join(ROWS)} (default: all), or publish",
    )
    parser.add_argument("--profile", choices=PLANS, default="full")
    parser.add_argument(
        "--quick",
        dest="profile",
        action="store_const",
        const="quick",
        help="a look at everything, kept apart from the published figures",
    )
    parser.add_argument(
        "--entries",
        type=int,
        action="append",
        help="pace: only this number of entries (may be given again)",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="TRIAL",
        help="only the trial of that label, as a run prints it (may come again)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="leave out trials that are on disk"
    )
    parser.add_argument(
        "--into", type=Path, help="where the results are (default: benchmarks/results)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
