"""Starts hosts, hears their beats, replaces those that died, hang or have grown.

Needs neither the app nor Celery: ``pecker observe`` supervises without them.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Sequence
from typing import Any

from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import chance, monotonic
from celery_pecker.kernel.errors import DatabaseUnavailable, Misconfigured
from celery_pecker.kernel.settings import PREFIX, Settings
from celery_pecker.observers.hosts.host_process import HostProcess

logger = logging.getLogger(__name__)

LIVED = 30.0
"""Seconds after which the life of a host counts as a good one: it is started anew at
once, and may be replaced for its memory."""
CANNOT_START = 2
"""Exit code of a host that is misconfigured."""
LIMIT = f"{PREFIX}observers_max_memory_per_host"


class SupervisedHosts:
    """Some hosts, and those that follow them."""

    def __init__(self, hosts: Sequence[SupervisedHost]) -> None:
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
            "pecker: host %s of observers has %d kB, and %s is %d: another one takes"
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
            ended = database.run("end_observer_node", now=None, node=process.node)
            if process is not self._replaced_process:
                self._drained = (True,) in ended
            database.run("free_observers", now=None, most=1_000)
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
