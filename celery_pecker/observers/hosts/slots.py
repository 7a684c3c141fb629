"""Starts hosts, hears their beats, replaces those that died or hang.

Needs neither the app nor Celery: ``pecker observe`` supervises without them.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import chance, monotonic
from celery_pecker.kernel.errors import DatabaseUnavailable, Misconfigured
from celery_pecker.kernel.settings import PREFIX, Settings

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
LIVED = 30.0
"""Seconds after which the life of a host counts as a good one."""
CANNOT_START = 2
"""Exit code of a host that is misconfigured."""


class Slots:
    """Some hosts, and those that follow them."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots

    def start(self) -> None:
        """Start the hosts."""
        for slot in self.slots:
            slot.start()

    def stop(self) -> None:
        """Have all hosts hand over and end; safe in a signal handler."""
        for slot in self.slots:
            slot.stop()

    def kill(self) -> None:
        """End all hosts at once."""
        for slot in self.slots:
            slot.kill()

    def join(self, timeout: float) -> bool:
        """Wait until all hosts have ended; return whether they have."""
        ends = monotonic() + timeout
        return all(slot.join(max(ends - monotonic(), 0.0)) for slot in self.slots)

    @property
    def failed(self) -> bool:
        """Whether a host cannot start as it is configured."""
        return any(slot.failed for slot in self.slots)

    def info(self) -> Sequence[dict[str, Any]]:
        """Return what there is to be seen of the hosts."""
        return [slot.info() for slot in self.slots]


class Slot:
    """One host after another, on a thread that hears the beats of each."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        lease = config["conf"][f"{PREFIX}observers_lease"]
        self._silence = max(SILENCE * lease, LEAST_SILENCE)
        self._backoff = Backoff(first=0.1, most=10.0)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._node = ""
        self._deaths = 0
        self.failed = False

    def start(self) -> None:
        """Start the thread."""
        name = f"pecker observers {self.config['name']}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def stop(self) -> None:
        """Have the host hand over and end."""
        self._stopping.set()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the host at once."""
        self._stopping.set()
        self._signal(signal.SIGKILL)

    def join(self, timeout: float) -> bool:
        """Wait until the host has ended; return whether it has."""
        return self._ended.wait(timeout)

    def info(self) -> dict[str, Any]:
        """Return what there is to be seen of the host."""
        process = self._process
        return {
            "name": self.config["name"],
            "pid": None if process is None else process.pid,
            "node": self._node,
            "deaths": self._deaths,
        }

    def _run(self) -> None:
        try:
            failures = 0
            while not self._stopping.is_set():
                begun = monotonic()
                try:
                    code: int | OSError = self._live()
                except OSError as error:  # no more processes or files
                    code = error
                self._bury()
                if self._stopping.is_set():
                    return
                if code == CANNOT_START:
                    self.failed = True
                    return
                self._deaths += 1
                failures = 1 if monotonic() - begun > LIVED else failures + 1
                wait = self._backoff.seconds(failures, chance())
                logger.warning(
                    "pecker: host %s of observers ended (%s), another one in %.1f s",
                    self.config["name"],
                    code,
                    wait,
                )
                self._stopping.wait(wait)
        finally:
            self._ended.set()

    def _live(self) -> int:
        """Start a host, and hear it until it has ended; return its exit code."""
        process = self._process = subprocess.Popen(
            [sys.executable, "-m", "celery_pecker.observers.hosts.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A signal from the terminal is for the supervisor, who passes it on.
            start_new_session=True,
        )
        if self._stopping.is_set():  # whoever asked may not have seen the process
            self._signal(signal.SIGTERM)
        assert process.stdin is not None  # noqa: S101  # pipes, as asked for
        assert process.stdout is not None  # noqa: S101
        with suppress(OSError):
            process.stdin.write(json.dumps(self.config).encode() + b"\n")
            process.stdin.flush()
        try:
            self._hear(process, process.stdout.fileno())
        finally:
            process.kill()
            code = process.wait()
            with suppress(OSError):
                process.stdin.close()
            process.stdout.close()
            self._process = None
        return code

    def _hear(self, process: subprocess.Popen[bytes], beats: int) -> None:
        silent, heard = 0.0, False
        looked = monotonic()
        poll = select.poll()  # select() takes no descriptor above 1,023
        poll.register(beats, select.POLLIN)
        while True:
            ready = poll.poll(GLANCE * 1000)
            now = monotonic()
            # A machine that was frozen has frozen both: no look counts for long.
            silent += min(now - looked, 2 * GLANCE)
            looked = now
            if ready:
                text = os.read(beats, 65_536)
                if not text:
                    return
                silent, heard = 0.0, True
                self._node = (
                    text.decode().rstrip("\n").rpartition("\n")[2] or self._node
                )
            if silent > (self._silence if heard else STARTING):
                logger.error(
                    "pecker: host %s of observers hangs (pid %d), it is killed",
                    self.config["name"],
                    process.pid,
                )
                return

    def _bury(self) -> None:
        """Say that the host is dead: nobody has to wait until its lease is over."""
        node, self._node = self._node, ""
        if not node:
            return
        # PostgreSQL's driver is loaded where it is needed: most supervisors never do.
        from celery_pecker.kernel.database import Database  # noqa: PLC0415  # see above

        conf = self.config["conf"]
        settings = Settings(**{k.removeprefix(PREFIX): v for k, v in conf.items()})
        database = Database.of(settings, role="observers")
        try:
            database.change("bury_observer_node", now=None, node=node)
            database.run("free_observers", now=None, most=1_000)
        except (DatabaseUnavailable, Misconfigured) as error:
            logger.warning(
                "pecker: the end of host %s of observers was not written: %s",
                self.config["name"],
                error,
            )
        finally:
            database.close()

    def _signal(self, number: int) -> None:
        process = self._process
        if process is not None:
            with suppress(OSError):
                process.send_signal(number)
