"""The versions of requirements/dev.lock, without hashes of files and extras.

With hashes pip takes nothing that has none, as a wheel that was built here; a
constraint may not have extras.
"""

from __future__ import annotations

import re
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements" / "dev.lock"


def constraints(folder: Path) -> Path:
    """Write them into a file of the folder; return its path."""
    path = folder / "constraints.txt"
    text = re.sub(r" \\\n +--hash=\S+", "", LOCK.read_text())
    path.write_text(re.sub(r"\[[\w, ]+\](?===)", "", text))
    return path
