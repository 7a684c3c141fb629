"""Run the remote parts until told to stop: ``python -m example_project.parts``."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys

from example_project.parts.server import Parts


async def serve(calls: int, seed: int) -> None:
    """Serve until SIGTERM or SIGINT."""
    parts = Parts(calls, seed)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    sys.stdout.write(json.dumps(await parts.listen()) + "\n")
    sys.stdout.flush()
    watch = asyncio.create_task(parts.watch())
    await stopped.wait()
    watch.cancel()
    await parts.close()


def main() -> None:
    """Read the options and serve."""
    options = argparse.ArgumentParser(description="Simulated remote parts of calls.")
    options.add_argument("--calls", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    asyncio.run(serve(given.calls, given.seed))


if __name__ == "__main__":
    main()
