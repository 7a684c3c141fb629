"""One process of a host: its pipes, and what its supervisor hears from it."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.settings import PREFIX

logger = logging.getLogger(__name__)

GLANCE = 0.1
"""Seconds for which a supervisor waits for a beat."""
SILENCE = 0.7
"""Part of a lease for which a host may be silent: it hangs, and is killed before its
lease is over, so that no other life begins beside it."""
LEAST_SILENCE = 2.0
"""Seconds: a machine under load is no host that hangs."""
STARTING = 60.0
"""Seconds that a host has to import the app."""


class HostProcess:
    """One process of a host, from its start to its end."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Start it."""
        self.node = ""
        """The life of the host that it leads; empty until it has joined."""
        self.memory = 0
        """Kilobytes, by its last beat; 0 where no limit is set, and while it drains."""
        self.begun = monotonic()
        self._name = config["name"]
        lease = config["conf"][f"{PREFIX}observers_lease"]
        self._most_silent = STARTING
        self._silence = max(SILENCE * lease, LEAST_SILENCE)
        self._silent = 0.0
        self._looked = self.begun
        self._process = subprocess.Popen(
            [sys.executable, "-m", "celery_pecker.observers.hosts.host_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A signal from the terminal is for the supervisor, which passes it on.
            start_new_session=True,
        )
        assert self._process.stdin is not None  # noqa: S101  # pipes, as asked for
        assert self._process.stdout is not None  # noqa: S101
        self._input = self._process.stdin
        self._output = self._process.stdout
        self._poll = select.poll()  # select() takes no descriptor above 1,023
        self._poll.register(self._output, select.POLLIN)
        with suppress(OSError):
            self._input.write(json.dumps(config).encode() + b"\n")
            self._input.flush()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def wait_for_beat(self) -> bool:
        """Wait for a beat for a moment; return False once it has ended, or hangs."""
        ready = self._poll.poll(GLANCE * 1000)
        now = monotonic()
        # A machine that was frozen has frozen both: no look counts for long.
        self._silent += min(now - self._looked, 2 * GLANCE)
        self._looked = now
        if ready:
            text = os.read(self._output.fileno(), 65_536)
            if not text:
                return False
            self._silent, self._most_silent = 0.0, self._silence
            self._beat(text.decode().rstrip("\n").rpartition("\n")[2])
        elif self._process.poll() is not None:
            return False  # what it forked lives on, and keeps the pipe open
        if self._silent > self._most_silent:
            logger.error(
                "pecker: host %s of observers hangs (pid %d), it is killed",
                self._name,
                self.pid,
            )
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; safe in a signal handler."""
        with suppress(OSError):
            self._process.send_signal(number)

    def end(self) -> int:
        """Kill it, if it has not ended; return its exit code."""
        self._process.kill()
        code = self._process.wait()
        with suppress(OSError):
            self._input.close()
        self._output.close()
        return code

    def _beat(self, line: str) -> None:
        node, _, memory = line.partition(" ")
        self.node = node or self.node
        self.memory = int(memory or 0)
