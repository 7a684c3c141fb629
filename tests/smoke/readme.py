"""The README's commands, once, as a newcomer types them; run by `make check`.

`make test` is the other command: it follows, and `make check` ends in it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS = {"make demo", "make test"}
LIMIT = 300.0


def left_behind() -> set[Path]:
    """Return the directories of embedded servers."""
    return set(Path(tempfile.gettempdir()).glob("pecker-*"))


def main() -> None:
    """Exit with a reason, or with 0 when the demo ran and left nothing."""
    lines = {line.strip() for line in (ROOT / "README.md").read_text().splitlines()}
    said = {re.sub(r"\s*#.*", "", line).removeprefix("$ ") for line in lines}
    if missing := COMMANDS - said:
        sys.exit(f"README.md does not name {', '.join(sorted(missing))}")
    before = left_behind()
    sys.stdout.write("smoke: make demo\n")
    sys.stdout.flush()
    try:
        subprocess.run(
            ["make", "--no-print-directory", "demo"],  # noqa: S607 — as it is typed
            check=True,
            cwd=ROOT,
            timeout=LIMIT,
            stdin=subprocess.DEVNULL,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        sys.exit(f"smoke: {error}")
    if left := left_behind() - before:
        sys.exit(f"smoke: the demo left {', '.join(map(str, left))}")


if __name__ == "__main__":
    main()
