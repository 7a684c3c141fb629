"""Fork the tests' workers and schedulers from a process that has imported Celery.

The imports of each `-m tests.lean` cost half a second of processor time, and the tests
start hundreds. After `install`, `subprocess.Popen` has such a process made by a server
(`fork_server`), of which each process of pytest has one: a fork with the arguments,
environment, directory, session and streams of the call. What it is for its user is the
same as ever: id, signals, groups, pipes, exit code. It is a child of the server, not of
pytest, so `poll` and `wait` ask there; `os.waitpid` does not know it. All forks of one
server have the same seed of `hash`.

Everything else starts as before: other commands, options of the interpreter, pools that
patch modules before they are imported (gevent), systems without pidfd, and what the
server refuses or does not answer. PECKER_TEST_PLAIN_STARTS=1 turns the forks off.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MODULE = "tests.lean"
COMMAND = [sys.executable, "-m", MODULE]
PLAIN = "PECKER_TEST_PLAIN_STARTS"
PATCHED = re.compile(r"gevent|eventlet")
LARGEST = 1 << 20
"""Bytes of a message."""

UNKNOWN = 199 << 8
"""What `os.waitpid` would say of a process of which nobody knows how it ended: an exit
code that no test expects."""
ANSWERS_WITHIN = 60.0
"""Seconds; the first answer comes after all imports."""

Order = dict[str, Any]
_plain: Any = subprocess.Popen
_arguments = inspect.signature(_plain._execute_child)


class Popen(subprocess.Popen[Any]):
    """A process of `subprocess`, forked if it is one that can be."""

    _forked = False

    def _execute_child(self, args: Any, *rest: Any) -> None:
        asked = _arguments.bind(self, args, *rest).arguments
        pid = server.start(asked) if _can_be_forked(asked) else None
        plain: Any = super()
        if pid is None:
            plain._execute_child(args, *rest)
            return
        self.pid, self._forked, self._child_created = pid, True, True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        plain._close_pipe_fds(*(asked[end] for end in ends))

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if not self._forked:
            plain: Any = super()
            waited: tuple[int, int] = plain._try_wait(wait_flags)
            return waited
        if not wait_flags & os.WNOHANG:
            _has_ended(self.pid, None)
        return server.ended(self.pid)

    def _internal_poll(self, *args: Any, **options: Any) -> int | None:
        own: Any = self
        if not self._forked:
            plain: Any = super()
            code: int | None = plain._internal_poll(*args, **options)
            return code
        if self.returncode is None and own._waitpid_lock.acquire(blocking=False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid and self.returncode is None:
                    own._handle_exitstatus(status)
            finally:
                own._waitpid_lock.release()
        return self.returncode


def install() -> None:
    """Have all of this process start by way of `Popen`, where there are pidfds."""
    if hasattr(os, "pidfd_open") and PLAIN not in os.environ:
        module: Any = subprocess
        module.Popen = Popen


def _can_be_forked(asked: Mapping[str, Any]) -> bool:
    words, cwd = asked["args"], asked["cwd"]
    return (
        isinstance(words, (list, tuple))
        and [*words[:3]] == COMMAND
        and not PATCHED.search(" ".join(map(os.fsdecode, words)))
        and asked["close_fds"]
        and asked["restore_signals"]
        and not (asked["shell"] or asked["pass_fds"])
        and all(asked[name] is None for name in ("executable", "preexec_fn"))
        and all(asked[name] is None for name in ("gid", "gids", "uid"))
        and asked["umask"] < 0
        and (cwd is None or Path(os.fsdecode(cwd)).is_dir())
    )


def _has_ended(pid: int, timeout: int | None) -> bool:
    """Wait so many milliseconds; also true of what nobody has waited for yet."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        end = select.poll()
        end.register(process, select.POLLIN)
        return bool(end.poll(timeout))
    finally:
        os.close(process)


class Server:
    """The process of `fork_server`, started when it is needed first."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def start(self, asked: Mapping[str, Any]) -> int | None:
        """Return the id of a new process; None if it has to be started plainly."""
        env = os.environ if asked["env"] is None else asked["env"]
        order = {
            "words": [os.fsdecode(word) for word in asked["args"][3:]],
            "env": {os.fsdecode(name): os.fsdecode(env[name]) for name in env},
            "cwd": str(Path(os.fsdecode(asked["cwd"] or ".")).resolve()),
            "session": asked["start_new_session"],
            "group": asked["process_group"],
            # Now, not when the server began: a test may have ignored them then.
            "ignores_interrupts": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
        }
        streams = (asked["p2cread"], asked["c2pwrite"], asked["errwrite"])
        fds = [own if fd < 0 else fd for own, fd in enumerate(streams)]
        if self._owner not in {0, os.getpid()}:  # a fork of pytest
            return None
        with self._turn, suppress(OSError):
            if not self._owner:
                self._begin()
            pid: int | None = self._ask(order, fds)
            return pid
        return None

    def ended(self, pid: int) -> tuple[int, int]:
        """Return what `os.waitpid` does, which waits for nothing."""
        if self._owner == os.getpid():
            with self._turn, suppress(OSError):
                own, status = self._ask({"pid": pid}, [])
                return own, status
        return (pid, UNKNOWN) if _has_ended(pid, 0) else (0, 0)

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(ANSWERS_WITHIN)
        # with no PYTHONPATH: each child adds its own
        kept = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
        with theirs:
            self._process = _plain(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
                env=kept,
            )
        atexit.register(self.close)

    def _ask(self, order: Order, fds: list[int]) -> Any:
        if self._line is None:
            raise OSError
        try:
            socket.send_fds(self._line, [json.dumps(order).encode()], fds)
            answer = self._line.recv(LARGEST)
        except BaseException:  # also a test's time limit: the next answer is not ours
            self.close()
            raise
        if not answer:
            self.close()
            raise OSError
        return json.loads(answer)

    def close(self) -> None:
        """End the server; what it has started runs on."""
        line, self._line = self._line, None
        if line is None or self._process is None or self._owner != os.getpid():
            return
        with line, suppress(OSError):  # forks of pytest have the line open, too
            line.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(ANSWERS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


server = Server()
