"""When a supervisor knows that a process of a host has ended."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest

from celery_pecker.observers.hosts import supervised_hosts as host_process


def test_a_host_that_died_is_missed_while_what_it_forked_lives(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A child has the pipe of its beats too: it does not end with the host."""
    start = subprocess.Popen

    def forking(_words: list[str], **options: Any) -> Any:
        return start(["sh", "-c", "sleep 600 & exit 3"], **options)

    monkeypatch.setattr(host_process, "STARTING", 5.0)
    monkeypatch.setattr(subprocess, "Popen", forking)
    host = host_process.HostProcess(
        {"name": "one", "conf": {"pecker_observers_lease": 5.0}}
    )
    try:
        while host.wait_for_beat():
            pass
        assert host.end() == 3
    finally:
        os.killpg(host.pid, signal.SIGKILL)
    assert caplog.messages == []
