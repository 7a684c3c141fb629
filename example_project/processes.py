"""A local process with the face of a docker-py container.

pytest-celery drives its nodes through docker-py's container object: a handful of
attributes and methods. This object has them and is a process of this machine, so
pytest-celery's own classes (``CeleryTestContainer``, ``CeleryTestWorker``, ...) run
on it unchanged where there is no Docker engine.

Three promises: signals reach the whole process group, as a container's do; a frozen
process can always be ended; nothing outlives the test run, however that ends.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery_pecker.kernel.clock import new_id
from celery_pecker.testing import reaper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ENDED_WITHIN = 10.0

_alive: weakref.WeakSet[ProcessContainer] = weakref.WeakSet()


class ProcessContainer:
    """One process group, started, signalled and read as docker-py would.

    ``{id}`` in the command stands for the first twelve digits of the container's id,
    which pytest-celery takes for a worker's host name: ``-n name@{id}``.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.id = new_id().hex + new_id().hex
        self.name = name
        self.status = "created"
        self.lives = 0
        self._command = [part.replace("{id}", self.id[:12]) for part in command]
        self._cwd = str(cwd) if cwd is not None else None
        self._env = {**os.environ, **(env or {}), "PYTHONUNBUFFERED": "1"}
        self._folder = Path(tempfile.mkdtemp(prefix="pecker-process-"))
        self._log = self._folder / "log"
        self._life_began_at = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._reaper: subprocess.Popen[str] | None = None
        self.attrs: dict[str, Any] = {
            "NetworkSettings": {"Networks": {}, "Ports": {}},
            "HostConfig": {"PortBindings": {}},
            "Config": {"Env": [f"{k}={v}" for k, v in (env or {}).items()]},
            "State": {},
        }
        _alive.add(self)

    @property
    def pid(self) -> int:
        """Process id of this life; also the id of its process group."""
        if self._process is None:
            msg = f"{self.name} was never started"
            raise RuntimeError(msg)
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while the process runs; negative: the signal that ended it."""
        return self._process.poll() if self._process is not None else None

    def start(self) -> None:
        """Begin a new life of the process; its log goes on in the same file."""
        self._log.touch()
        self._life_began_at = self._log.stat().st_size
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._tell(str(self._process.pid))
        self.lives += 1
        self.reload()

    def reload(self) -> None:
        """Read `status` and `attrs["State"]` of the process anew."""
        if self._process is None:
            return
        code = self.exit_code
        self.status = "running" if code is None else "exited"
        self.attrs["State"] = {"Pid": self.pid, "ExitCode": code}

    def kill(self, signal: str | int | None = None) -> None:
        """Signal the whole group; after SIGKILL (the default) it is gone."""
        number = _signal_number(signal if signal is not None else "SIGKILL")
        self._signal_group(number)
        if number == _signal_number("SIGKILL"):
            self.wait()
        self.reload()

    def stop(self, timeout: float = _ENDED_WITHIN) -> None:
        """End the process: SIGTERM first, SIGKILL after `timeout` seconds."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._signal_group(signal.SIGCONT)
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
        # also when the leader is gone: a pool child may have stayed behind
        self._signal_group(signal.SIGKILL)
        self.wait()
        self._tell("0")
        self.reload()

    def restart(self, timeout: float = _ENDED_WITHIN) -> None:
        """End this life and begin the next."""
        self.stop(timeout)
        self.start()

    def wait(self, timeout: float = _ENDED_WITHIN) -> int:
        """Return the exit code once the process has ended; raise if it does not."""
        if self._process is None:
            msg = f"{self.name} was never started"
            raise RuntimeError(msg)
        code = self._process.wait(timeout)
        self.reload()
        return code

    def logs(self) -> bytes:
        """Return what the process has written in all its lives (as docker does)."""
        return self._log.read_bytes() if self._log.exists() else b""

    def life_log(self) -> str:
        """Return what this life has written: no "ready" of an earlier one."""
        return self.logs()[self._life_began_at :].decode(errors="replace")

    def exec_run(self, cmd: str | Sequence[str], **_: object) -> tuple[int, bytes]:
        """Run a command where the process runs; its exit code and output."""
        argv = shlex.split(cmd) if isinstance(cmd, str) else list(cmd)
        done = subprocess.run(
            argv,
            cwd=self._cwd,
            env=self._env,
            capture_output=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def remove(self) -> None:
        """End the process and forget its log."""
        self.stop(timeout=0.0)
        shutil.rmtree(self._folder, ignore_errors=True)
        companion, self._reaper = self._reaper, None
        if companion is not None:
            with contextlib.suppress(BrokenPipeError):
                companion.communicate("bye\n", timeout=_ENDED_WITHIN)
        _alive.discard(self)

    def _tell(self, pid: str) -> None:
        """Have the companion know which process to end if this one is killed."""
        if self._reaper is None:
            self._reaper = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", reaper.__file__),
                    *(str(self._folder), str(int(signal.SIGKILL))),
                ],
                stdin=subprocess.PIPE,
                cwd="/",
                text=True,
                start_new_session=True,
            )
        if self._reaper.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._reaper.stdin.write(f"{pid}\n")
                self._reaper.stdin.flush()

    def _signal_group(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            # macOS says EPERM of a group whose last member is a zombie
            return


def _signal_number(signal_: str | int) -> int:
    return getattr(signal, signal_).value if isinstance(signal_, str) else int(signal_)


@atexit.register
def _end_all() -> None:
    for process in list(_alive):
        process.remove()
