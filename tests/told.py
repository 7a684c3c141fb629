"""Words for a program of the tests that other users of the machine may not see.

`ps` shows the arguments of a process to each of them, and an address has its password.
"""

from __future__ import annotations

import json
import os
from typing import Any

NAME = "PECKER_TEST_TOLD"


def telling(*words: Any) -> dict[str, str]:
    """Return the environment in which a program is told these words."""
    return {**os.environ, NAME: json.dumps(words)}


def told() -> list[Any]:
    """Return what this process was told."""
    words: list[Any] = json.loads(os.environ[NAME])
    return words
