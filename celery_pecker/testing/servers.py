"""What all embedded servers have in common: a child, a port, a directory.

Real programs as direct children on the loopback interface, so that a test can kill,
freeze and restart what it runs against. The port and the data outlive all of it;
`close()` (or the end of the `with` block, or of the owner) removes everything.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from celery_pecker.kernel.errors import PeckerError
from celery_pecker.testing import reaper
from celery_pecker.testing.binaries import account, reachable
from celery_pecker.testing.eventually import eventually

MEMORY = Path("/dev/shm")  # noqa: S108 — a directory of mkdtemp in it
ROOM = 2 * 2**30
"""Bytes that must be free there: a container of Docker has 64 MB of it."""


def place(*, passable: bool, fast: bool) -> Path:
    """Return a directory for temporary files.

    Args:
        passable: Another user than this process's must be able to enter it.
        fast: It may be gone with the machine. It is in memory where there is room: on
            ext4 PostgreSQL makes a database in 150 ms or more, there in 30.
    """
    usual = Path(tempfile.gettempdir())
    places = [usual]
    if fast and _has_room(MEMORY):
        places.insert(0, MEMORY)
    if not passable:
        return places[0]
    places += [Path("/tmp"), Path("/var/tmp")]  # noqa: S108 — only if TMPDIR is closed to the server
    for one in places:
        if one.is_dir() and reachable(one.resolve()):
            return one
    return usual


def _has_room(memory: Path) -> bool:
    try:
        free = shutil.disk_usage(memory).free
        flags = os.statvfs(memory).f_flag
    except OSError:
        return False
    # programs in a closed directory are copied to where the server's files are
    return free > ROOM and not flags & os.ST_NOEXEC and os.access(memory, os.W_OK)


HOST = "127.0.0.1"
PORTS = range(12_000, 32_000)
"""Below the ports that a system gives to outgoing connections (from 32768 on).

While a server is down its clients go on connecting. A port from that range may then be
taken by any of them, and a client whose own port is the one that it dials is connected
to itself: the server cannot come back.
"""
STARTS_WITHIN = 30.0
ENDS_WITHIN = 15.0


class ServerFailed(PeckerError):
    """An embedded server did not start or did not end."""


def free_port() -> int:
    """Return a port on which no process listened a moment ago."""
    for _ in range(200):
        port = PORTS[secrets.randbelow(len(PORTS))]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise ServerFailed(f"no free port from {PORTS.start} to {PORTS.stop - 1} on {HOST}")


class EmbeddedServer:
    """A server program as a child of this process, with its directory and port."""

    name: ClassVar[str]
    stopping: ClassVar[int] = signal.SIGTERM
    """Ends the program with all data on disk."""
    ending: ClassVar[int] = signal.SIGTERM
    """Ends the program when its data are not needed any more."""

    found: Callable[[], Path]
    """Returns the program of an installed wheel; raises ServerMissing."""
    settings: ClassVar[Mapping[str, str]]
    faster: ClassVar[Mapping[str, str]]
    """Further settings where nothing has to be on disk."""

    def __init__(
        self,
        *,
        fast: bool = False,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> None:
        self.port = port or free_port()
        self.password = secrets.token_hex(16)
        """Each user of the machine reaches the port."""
        self._fixed_port = port is not None
        self._account = account()
        self._fast = fast
        self._program = type(self).found()
        fastly = self.faster if fast else {}
        self._settings = {**self.settings, **fastly, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._reaper: subprocess.Popen[str] | None = None
        self._directory: Path | None = None
        self._frozen = False

    def __enter__(self) -> Self:
        """Start the server if that has not been done."""
        return self if self.running else self.start()

    def __exit__(self, *_: object) -> None:
        """Close the server."""
        self.close()

    def __repr__(self) -> str:
        """Return what a failing test needs to know."""
        state = "frozen" if self._frozen else "running" if self.running else "down"
        return f"<{type(self).__name__} {HOST}:{self.port} {state}>"

    @property
    def directory(self) -> Path:
        """Where the server keeps its data and its log; gone after `close()`."""
        if self._directory is None:
            raise ServerFailed(
                f"{self.name} on port {self.port} was not started or is closed"
            )
        return self._directory

    @property
    def log(self) -> str:
        """What the server wrote in all its lives."""
        log = self.directory / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    @property
    def running(self) -> bool:
        """The process is there; a frozen one counts."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the life that runs now."""
        if self._process is None or self._process.poll() is not None:
            raise ServerFailed(f"{self.name} on port {self.port} is not running")
        return self._process.pid

    def start(self) -> Self:
        """Start the server; with the data of its earlier lives, if there were any."""
        if self.running:
            return self
        first = self._directory is None
        if first:
            self._prepare()
        tries = 1 if self._fixed_port or not first else 3
        for left in reversed(range(tries)):
            try:
                self._spawn()
            except ServerFailed:
                if not left:
                    raise
                # Another process may have taken the port since it was free.
                self.port = free_port()
            else:
                break
        return self

    def stop(self) -> None:
        """End the process in good order; data and port are kept for `start()`."""
        self._end(self.stopping)

    def kill(self) -> None:
        """Kill the process and its children with SIGKILL; data and port stay."""
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                reaper.kill_tree(process.pid)
            process.wait(ENDS_WITHIN)
        self._frozen = False
        self._tell("0")

    def restart(self) -> Self:
        """End the server in good order and start it on the same port."""
        self.stop()
        return self.start()

    def freeze(self) -> None:
        """Stop the process and its children: connections stay, none answers."""
        reaper.send(self.pid, signal.SIGSTOP)
        for member in reaper.process_tree(self.pid):
            reaper.send(member, signal.SIGSTOP)
        self._frozen = True

    def thaw(self) -> None:
        """Let the server go on where it was frozen."""
        reaper.thaw(self.pid)
        self._frozen = False

    def close(self) -> None:
        """End the server and remove its directory; may be called again."""
        self._end(self.ending)
        self._remove_leftovers()
        if self._directory is not None:
            shutil.rmtree(self._directory)
            self._directory = None
        companion, self._reaper = self._reaper, None
        if companion is not None:
            with contextlib.suppress(BrokenPipeError):
                companion.communicate("bye\n", timeout=ENDS_WITHIN)

    # What each server says of itself

    def _install(self) -> None:
        """Put what the program needs for its first start into the directory."""

    def _command(self) -> Sequence[str | Path]:
        """Return the program and its arguments."""
        raise NotImplementedError

    def _ready(self) -> bool:
        """Return whether *this* process answers, not another one on the port."""
        raise NotImplementedError

    def _remove_leftovers(self) -> None:
        """Leave nothing of the ended server outside its directory."""

    def _write(self, name: str, text: str) -> Path:
        """Write a file that only the server may read: `ps` shows its arguments."""
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_text(text)
        if self._account is not None:
            os.chown(path, *self._account)
        return path

    # The child

    def _prepare(self) -> None:
        folder = place(passable=self._account is not None, fast=self._fast)
        self._directory = Path(tempfile.mkdtemp(prefix="pecker-", dir=folder))
        if self._account is not None:
            os.chown(self._directory, *self._account)
        self._reaper = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", reaper.__file__),
                *(str(self._directory), str(int(self.ending))),
            ],
            stdin=subprocess.PIPE,
            cwd="/",
            text=True,
            start_new_session=True,
        )
        try:
            self._install()
        except BaseException:
            self.close()
            raise

    def _popen(self, command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        identity = self._account
        with (self.directory / "log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                # Settings in the environment would reach into the server.
                env={k: v for k, v in os.environ.items() if not k.startswith("PG")},
                # A Ctrl-C at the terminal is meant for the tests, which then clean up.
                start_new_session=True,
                user=identity.uid if identity else None,
                group=identity.gid if identity else None,
                extra_groups=[] if identity else None,
            )
        self._tell(str(process.pid))
        return process

    def _spawn(self) -> None:
        self._process = self._popen(self._command())
        try:
            eventually(
                lambda: (
                    self._process is None
                    or self._process.poll() is not None
                    or self._ready()
                ),
                STARTS_WITHIN,
                f"{self.name} answers on {HOST}:{self.port}",
                interval=0.01,
                ignoring=(OSError,),
            )
        except AssertionError as error:
            self.kill()
            raise ServerFailed(self._story(str(error))) from error
        if not self.running:
            code = self._process.returncode
            text = f"{self.name} ended with code {code} while it started"
            raise ServerFailed(self._story(text))

    def _end(self, signum: int) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            if self._frozen:
                reaper.thaw(process.pid)
            reaper.send(process.pid, signum)
            try:
                process.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                # A backend held by a debugger, say. Killed, it recovers at its start.
                reaper.kill_tree(process.pid)
                process.wait(ENDS_WITHIN)
        self._frozen = False
        self._tell("0")

    def _tell(self, line: str) -> None:
        companion = self._reaper
        if companion is not None and companion.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                companion.stdin.write(f"{line}\n")
                companion.stdin.flush()

    def _story(self, text: str) -> str:
        return f"{text}; the end of its log:\n{self.log[-2000:]}"
