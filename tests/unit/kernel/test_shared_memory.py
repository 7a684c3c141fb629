"""Fresh interpreters map what their worker has made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from celery_pecker.kernel import shared_memory

VARIABLE = "CELERY_PECKER_TEST_MEMORY"
CHILD = f"""
from celery_pecker.kernel import shared_memory
memory = shared_memory.join({VARIABLE!r})
memory[:1] = b"1"
"""
WORKER = f"""
import subprocess, sys
from celery_pecker.kernel import shared_memory
memory = shared_memory.make(64, variable={VARIABLE!r})
subprocess.run([sys.executable, "-c", {CHILD!r}], check=True)
print(memory[:1] == b"1", flush=True)
import os
print(os.environ[{VARIABLE!r}])
"""


def test_a_child_writes_where_its_worker_reads() -> None:
    """And the file goes with the worker, not with the child."""
    said = subprocess.run(  # our own interpreter
        [sys.executable, "-c", WORKER], check=True, capture_output=True, text=True
    )
    seen, path = said.stdout.split()
    assert seen == "True"
    assert not Path(path).exists()


def test_there_may_be_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or one that has ended."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert shared_memory.join(VARIABLE) is None
    monkeypatch.setenv(VARIABLE, f"/nowhere-{os.getpid()}")
    assert shared_memory.join(VARIABLE) is None
