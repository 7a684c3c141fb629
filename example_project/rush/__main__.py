"""Play the rush hour alone: ``python -m example_project.rush``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from example_project.demo.servers import Servers
from example_project.rush import picture, story
from example_project.rush.app import LIMIT, MEETINGS
from example_project.rush.play import Place


def main() -> int:
    """Play both acts, show the figures, draw the picture; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m example_project.rush")
    parser.add_argument("--meetings", type=int, default=MEETINGS)
    parser.add_argument("--limit", type=float, default=LIMIT)
    parser.add_argument("--picture", type=Path, default=Path("demo-rush-hour.svg"))
    given = parser.parse_args()
    console = Console()
    with Servers() as servers:
        place = Place(
            dsn=servers.postgres.dsn,
            redis=servers.redis.url,
            key_prefix=servers.redis.key_prefix,
            meetings=given.meetings,
            limit=given.limit,
        )
        acts = story.both(place, lambda said: console.print(said, highlight=False))
    story.show(console, acts)
    given.picture.write_text(picture.draw(acts))
    console.print(f"\nThe rush hour as a picture: {given.picture}")
    failed = story.failures(acts, given.meetings)
    for failure in failed:
        console.print(f"FAILED: {failure}", style="bold red")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
