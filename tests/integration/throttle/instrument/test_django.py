"""What of Django counts, on psycopg and on another driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.told import telling

ROOT = Path(__file__).parents[4]
PROGRAM = Path(__file__).with_name("django_program.py")


def test_a_program_with_two_databases_counts_each(
    empty_dsn: str, tmp_path: Path
) -> None:
    """By aliases: statements, commits, failures, fetches, other threads."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAM)],
        env={**telling(empty_dsn, str(tmp_path / "db")), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
