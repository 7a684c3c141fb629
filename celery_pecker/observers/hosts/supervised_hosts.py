"""Starts hosts, hears their beats, replaces those that died, hang or have grown.

Needs neither the app nor Celery: ``pecker observe`` supervises without them.

`HostProcess` is one process of a host: its pipes, and what is heard from it.
"""

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


logger = logging.getLogger(__name__)

LIVED = 30.0
"""Seconds after which the life of a host counts as a good one: it is started anew at
once, and may be replaced for its memory."""
CANNOT_START = 2
"""Exit code of a host that is misconfigured."""
LIMIT = f"{PREFIX}observers_memory_bytes"


class SupervisedHosts:
    """Some hosts, and those that follow them."""

    def __init__(self, hosts: "Sequence[SupervisedHost]") -> None:
        self.hosts = hosts

    def start(self) -> None:
        """Start the hosts."""
        for host in self.hosts:
            host.start()

    def stop(self) -> None:
        """Have all hosts hand over and end; safe in a signal handler."""
        for host in self.hosts:
            host.stop()

    def kill(self) -> None:
        """End all hosts at once."""
        for host in self.hosts:
            host.kill()

    def join(self, timeout: float) -> bool:
        """Wait until all hosts have ended; return whether they have."""
        ends = monotonic() + timeout
        return all(host.join(max(ends - monotonic(), 0.0)) for host in self.hosts)

    @property
    def failed(self) -> bool:
        """Whether a host cannot start as it is configured."""
        return any(host.failed for host in self.hosts)

    def info(self) -> Sequence[dict[str, Any]]:
        """Return what there is to be seen of the hosts."""
        return [host.info() for host in self.hosts]


class SupervisedHost:
    """One host after another, on a thread that hears the beats of each."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self._limit: int | None = config["conf"].get(LIMIT)
        self._backoff = Backoff(first=0.1, most=10.0)
        self._process: HostProcess | None = None
        self._replaced_process: HostProcess | None = None
        """Hands over to the process that was started in its place."""
        self._draining: threading.Thread | None = None
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._drained = False
        """Whether the last one that died was drained by people."""
        self._deaths = 0
        self._replaced = 0
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
            "node": "" if process is None else process.node,
            "deaths": self._deaths,
            "replaced": self._replaced,
        }

    def _run(self) -> None:
        try:
            failures = 0
            while not self._stopping.is_set():
                begun = monotonic()
                try:
                    code = self._supervise()
                except OSError as error:  # no more processes or files
                    code = error
                if code is None:
                    continue
                if self._stopping.is_set():
                    return
                # One that has grown runs, and others too: they are not ended for this.
                if code == CANNOT_START and self._replaced_process is None:
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
            if self._draining is not None:
                self._draining.join()
            self._ended.set()

    def _supervise(self) -> int | OSError | None:
        """Watch a host until it has ended; return its exit code, None: it has grown."""
        # One that has grown is alive: no outage may let its successor bury it.
        follows = self._replaced_process is None
        config = {**self.config, "follows": follows, "drains": self._drained}
        process = self._process = HostProcess(config)
        if self._stopping.is_set():  # stop() may not have seen the process
            process.signal(signal.SIGTERM)
        relieved = False
        while process.wait_for_beat():
            large = self._replaced_process
            if large is not None and process.node and not relieved:
                large.signal(signal.SIGTERM)
                relieved = True
            if self._has_grown(process):
                self._replaced += 1
                self._replaced_process = process
                self._draining = threading.Thread(
                    target=self._drain_replaced, args=[process], daemon=True
                )
                self._draining.start()
                return None
        self._process = None
        return self._end(process)

    def _has_grown(self, process: HostProcess) -> bool:
        """Return whether another process is to take its place.

        One that is above the limit from its start on would be replaced for ever: it
        stays for a while. Nothing is started beside two.
        """
        if (
            self._limit is None
            or process.memory <= self._limit
            or monotonic() - process.begun < LIVED
            or self._replaced_process is not None
            or self._stopping.is_set()
        ):
            return False
        logger.warning(
            "pecker: host %s of observers has %d bytes, and %s is %d: another one takes"
            " over",
            self.config["name"],
            process.memory,
            LIMIT,
            self._limit,
        )
        return True

    def _drain_replaced(self, process: HostProcess) -> None:
        """Watch a host that is replaced until it has ended."""
        try:
            while process.wait_for_beat():
                pass
            code = self._end(process)
        finally:
            self._replaced_process = None
        if code and not self._stopping.is_set():
            logger.warning(
                "pecker: host %s of observers ended (%s) while it handed over",
                self.config["name"],
                code,
            )

    def _end(self, process: HostProcess) -> int:
        """End a process; mark its host as dead, so that no host waits for its lease."""
        code = process.end()
        if not process.node:
            return code
        # PostgreSQL's driver is loaded where it is needed: most supervisors never do.
        from celery_pecker.kernel.database import Database  # noqa: PLC0415  # see above

        conf = self.config["conf"]
        settings = Settings(**{k.removeprefix(PREFIX): v for k, v in conf.items()})
        database = Database.of(settings, role="observers")
        try:
            ended = database.run("end_observer_node", node=process.node)
            if process is not self._replaced_process:
                self._drained = (True,) in ended
            database.run("free_observers", most=1_000)
        except (DatabaseUnavailable, Misconfigured) as error:
            logger.warning(
                "pecker: the end of host %s of observers was not written: %s",
                self.config["name"],
                error,
            )
        finally:
            database.close()
        return code

    def _signal(self, number: signal.Signals) -> None:
        for process in (self._process, self._replaced_process):
            if process is not None:
                process.signal(number)
