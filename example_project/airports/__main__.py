"""Play the import alone: ``python -m example_project.airports``."""

from __future__ import annotations

import sys

from rich.console import Console

from example_project.airports import story
from example_project.airports.play import Place, play
from example_project.demo.servers import Servers


def main() -> int:
    """Import, show what was imported, return the exit code."""
    console = Console()
    with Servers() as servers:
        place = Place(
            dsn=servers.postgres.dsn,
            redis=servers.redis.url,
            key_prefix=servers.redis.key_prefix,
        )
        seen = play(place, console, lambda said: console.print(said, highlight=False))
    story.show(console, seen)
    failed = story.failures(seen)
    for failure in failed:
        console.print(f"FAILED: {failure}", style="bold red")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
