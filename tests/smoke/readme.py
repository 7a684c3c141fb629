"""The README's commands, once, as a newcomer types them; run by `make check`.

`make test` is the other command: it follows, and `make check` ends in it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from celery_pecker.testing import eventually

ROOT = Path(__file__).parents[2]
COMMANDS = {"make demo", "make test"}
LIMIT = 1_800.0
"""Seconds: three minutes on a quiet machine. The demo ends its own waits before."""


def left_behind(place: Path) -> list[str]:
    """Return the files that lie there, and the processes that were told of it."""
    mark = f"TMPDIR={place}".encode()
    left = [str(path) for path in place.iterdir()]
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environ.read_bytes().split(b"\0"):
                left.append(f"process {environ.parent.name}")
        except OSError:
            continue  # it has just ended, or is another user's
    return left


def main(place: Path) -> None:
    """Exit with a reason, or with 0 when the demo ran and left nothing."""
    lines = {line.strip() for line in (ROOT / "README.md").read_text().splitlines()}
    said = {re.sub(r"\s*#.*", "", line).removeprefix("$ ") for line in lines}
    if missing := COMMANDS - said:
        sys.exit(f"smoke: README.md does not name {', '.join(sorted(missing))}")
    sys.stdout.write("smoke: make demo\n")
    sys.stdout.flush()
    try:
        subprocess.run(
            ["make", "--no-print-directory", "demo"],  # noqa: S607 — as it is typed
            check=True,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(place)},
            timeout=LIMIT,
            stdin=subprocess.DEVNULL,
        )
        eventually(lambda: not left_behind(place), 30.0)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        sys.exit(f"smoke: {error}")
    except AssertionError:
        sys.exit(f"smoke: the demo left {', '.join(left_behind(place))}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="pecker-smoke-") as directory:
        # Servers that root starts run as somebody else, who must get through.
        Path(directory).chmod(0o711)
        main(Path(directory))
