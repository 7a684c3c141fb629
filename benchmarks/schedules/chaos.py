"""Kills and freezes over ten thousand slots: see tests/chaos/long_run.py."""

from __future__ import annotations

import sys

from tests.chaos.long_run import main

if __name__ == "__main__":
    sys.exit(main())
