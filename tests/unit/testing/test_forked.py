"""A worker or scheduler of the tests is the same, forked or started plainly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest

from celery_pecker.testing import eventually
from tests import forked

UNSET = ("PYTHONUNBUFFERED", "TZ")
LINE = 'print("here", flush=True)\n'
STATE = """
import json, multiprocessing.process, os, re, signal, sys, threading, time
import billiard.process

def opened():
    for one in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{one}")
        except FileNotFoundError:  # of the list itself
            continue
        if "libffi" not in path:  # some builds of libffi keep one, once it is loaded
            yield re.sub("[0-9]+", "", path)

main = sys.modules["__main__"]
streams = (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
said = {
    "words": sys.argv, "all words": sys.orig_argv, "path": sys.path,
    "environment": {**os.environ}, "zone": time.tzname, "folder": os.getcwd(),
    "spawned in": [multiprocessing.process.ORIGINAL_DIR, billiard.process.ORIGINAL_DIR],
    "main": [main.__name__, main.__spec__.name, main.__file__, main.__package__],
    "threads": threading.active_count(), "open": sorted(opened()),
    "leads": [os.getpid() == os.getsid(0), os.getpid() == os.getpgid(0)],
    "signals": [str(signal.getsignal(number)) for number in signal.valid_signals()],
    "blocked": [str(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "streams": [
        [s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.fileno()]
        for s in streams
    ],
    "written": [[s.write_through, type(s.buffer).__name__] for s in streams[1:]],
}
print(json.dumps(said))
sys.exit(7)
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[forked.Server]:
    """Give a server of this test's own."""
    own = forked.Server()
    monkeypatch.setattr(forked, "server", own)
    yield own
    own.close()


def write(folder: Path, text: str) -> list[str]:
    """Return a command that runs the text."""
    (folder / "probe.py").write_text(text)
    return [*forked.COMMAND, "-A", "probe", "report"]


def waits(folder: Path, text: str = "") -> list[str]:
    """Return a command that says that it is here, and waits for its end."""
    return write(folder, f"{LINE}{text}\nimport signal\nsignal.pause()\n")


def output(process: forked.Popen) -> IO[Any]:
    """Return the end of the pipe that it writes to."""
    assert process.stdout is not None
    return process.stdout


def ended(process: forked.Popen) -> bool:
    """Say whether it is known that it has ended."""
    return process.poll() is not None


@pytest.mark.parametrize(
    ("leads", "more"),
    [
        (False, {}),
        (True, {"PYTHONUNBUFFERED": "1", "TZ": "Asia/Tokyo", "PYTHONPATH": "a:{0}/b"}),
    ],
)
def test_it_is_as_if_it_had_been_started_plainly(
    tmp_path: Path, more: dict[str, str], *, leads: bool
) -> None:
    """Arguments, paths, environment, streams, signals and descriptors are the same."""
    command = write(tmp_path, STATE)
    env = {name: text.format(tmp_path) for name, text in more.items()}
    kept = {name: text for name, text in os.environ.items() if name not in UNSET}

    def said(kind: Any) -> Any:
        with kind(
            command,
            cwd=tmp_path,
            env={**kept, "PECKER_TEST_WORD": "ä=\n", **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=leads,
        ) as process:
            out, errors = process.communicate(timeout=60)
        assert process.returncode == 7, errors.decode()
        assert getattr(process, "_forked", False) == (kind is forked.Popen)
        return json.loads(out)

    assert said(forked.Popen) == said(forked._plain)


def test_its_end_is_known_as_that_of_a_child(tmp_path: Path) -> None:
    """Which signal ended it; until then it runs, also while it stands still."""
    with forked.Popen(
        waits(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process._forked
        assert output(process).readline() == "here\n"
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert process.poll() is None
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert process.poll() == process.returncode == -signal.SIGKILL
    process.terminate()  # nobody


def test_a_signal_to_its_group_ends_its_children(tmp_path: Path) -> None:
    """The leader of a session of its own, as soon as it has an id."""
    text = "import os\nif not os.fork():\n    os.write(1, b'child\\n')\n"
    process = forked.Popen(
        waits(tmp_path, text),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
    assert [output(process).readline() for _ in range(2)] == [b"here\n", b"child\n"]
    os.killpg(process.pid, signal.SIGTERM)
    assert process.communicate(timeout=60)[0] == b""  # the end of both
    assert process.returncode == -signal.SIGTERM


def test_what_it_does_not_survive_is_told_on_its_streams(tmp_path: Path) -> None:
    """An exception has its traceback, and exit code 1."""
    command = write(tmp_path, "import atexit\natexit.register(print, 'bye')\n1 / 0\n")
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert done.stdout == "bye\n"
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    ("options", "env", "module"),
    [
        (["-P", "gevent"], {}, "fine"),
        ([], {"C_IMPDEBUG": "1"}, "fine"),
        ([], {"PYTHONWARNINGS": "default"}, "fine"),
        ([], {"LC_ALL": "C"}, "fine"),
        ([], {}, "redis"),
        ([], {"PYTHONPATH": "more"}, "fine"),
    ],
)
def test_imports_that_would_go_otherwise_are_made_anew(
    tmp_path: Path, options: list[str], env: dict[str, str], module: str
) -> None:
    """Another value of what was read at import, another module of the same name."""
    command = [*waits(tmp_path), *options]
    (tmp_path / f"{module}.py").touch()
    (tmp_path / "more" / "celery").mkdir(parents=True)
    with forked.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        process.kill()
    assert not process._forked


def test_other_commands_and_options_are_started_plainly() -> None:
    """Also those of the interpreter, and whatever is done in the child before."""
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    for command, more in (
        ([sys.executable, "-c", ""], {}),
        ([sys.executable, "-W", "error", "-m", forked.MODULE, "--version"], {}),
        ([*forked.COMMAND, "--version"], {"preexec_fn": os.getpid}),
        ([*forked.COMMAND, "--version"], {"pass_fds": [0]}),
        ([*forked.COMMAND, "--version"], {"umask": 0o77}),
    ):
        with forked.Popen(command, **silent, **more) as process:
            assert process.wait() == 0
        assert not process._forked


def test_nothing_is_lost_with_the_server(tmp_path: Path, server: forked.Server) -> None:
    """What runs is seen to end, and what comes next is started plainly."""
    how: dict[str, Any] = {"cwd": tmp_path, "stdout": subprocess.PIPE}
    first = forked.Popen(waits(tmp_path), **how)
    assert first._forked
    assert server._process is not None
    server._process.kill()
    second = forked.Popen(waits(tmp_path), **how)
    assert not second._forked
    assert first.poll() is None
    for process in (first, second):
        process.kill()
        eventually(partial(ended, process), 30.0, "it has ended")
        process.communicate()
    assert first.returncode not in {0, -signal.SIGKILL}  # nobody knows: no test passes


def test_a_fork_of_pytest_starts_its_own(tmp_path: Path, server: forked.Server) -> None:
    """Two that ask on one line would read each other's answers."""
    command = write(tmp_path, "import sys\nsys.exit(7)\n")
    assert forked.Popen(command, cwd=tmp_path).wait() == 7
    child = os.fork()
    if not child:
        process = forked.Popen(command, cwd=tmp_path)
        os._exit(process.wait() if not process._forked else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert server._process is not None
    assert server._process.poll() is None


def test_what_is_imported_once_leaves_the_process_as_it_was() -> None:
    """No thread, descriptor, receiver, app or module of ours beside those of lean."""
    script = """
import os, sys, threading
from celery import _state, signals
from tests import fork_server, lean

def state():
    ours = ("celery_pecker", "celery_sharding", "throttle")
    every = {name: getattr(signals, name) for name in vars(signals)}
    heard = {name: str(s.receivers) for name, s in every.items() if hasattr(s, "send")}
    assert len(heard) > 20
    loaded = {name for name in sys.modules if name.startswith(ours)}
    return heard, loaded, os.listdir("/proc/self/fd"), threading.active_count()

lean.load()
before = state()
fork_server._import_all()
assert state() == before
assert before[-1] == 1
assert not [*_state._apps]
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=forked.ROOT)
