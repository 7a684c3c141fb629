"""Import Celery once, and fork a process at each request: see `forked`.

What is imported here must not connect a signal, start a thread, open a file or keep
what it read of the process: what `tests.lean` imports, and third-party modules. A
request is refused, so that the process starts without us, if an import would have gone
otherwise in it: another value of an environment variable that was read meanwhile, or a
module of the same name in its directory or on its PYTHONPATH.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

MODULE = "tests.lean"
ROOT = Path(__file__).resolve().parents[1]
MODULES = (
    *("celery.apps.beat", "celery.apps.worker", "celery.app.amqp", "celery.app.log"),
    *("celery.app.control", "celery.app.events", "celery.backends.redis"),
    *("celery.concurrency.prefork", "celery.concurrency.solo"),
    *("celery.concurrency.thread", "celery.events.receiver", "celery.loaders.app"),
    *("celery.worker.autoscale", "celery.worker.consumer", "celery.worker.control"),
    *("celery.worker.strategy", "kombu.transport.memory", "kombu.transport.pyamqp"),
    *("kombu.transport.redis", "psycopg", "redis", "zoneinfo"),
)
AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "OPENSSL_")
"""How the names begin that the interpreter and its libraries read at their start."""
HERE = {"PYTHONPATH", "PYTHONUNBUFFERED"}
SITE = {"sitecustomize", "usercustomize"}
LARGEST = 1 << 20
"""Bytes of a message."""

Order = dict[str, Any]


def serve(line: socket.socket) -> Order | None:
    """Answer until pytest is gone, then return None; in each child, its order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: pytest ends us
    read = _import_all()
    gc.collect()
    gc.freeze()
    alone = len([*Path("/proc/self/task").iterdir()]) == 1
    while True:
        message, fds, _, _ = socket.recv_fds(line, LARGEST, 3)
        if not message or not alone:
            return None
        order: Order = json.loads(message)
        if "pid" in order:
            answer: Any = os.waitpid(order["pid"], os.WNOHANG)
        elif _must_be_plain(order, read):
            answer = None
        else:
            ready, made = os.pipe()
            answer = os.fork()
            if not answer:
                line.detach()
                ignores = order["ignores_interrupts"]
                handler = signal.SIG_IGN if ignores else signal.default_int_handler
                signal.signal(signal.SIGINT, handler)
                _become(order, fds)  # closes what the server waits for, too
                return order
            os.close(made)
            os.read(ready, 1)
            os.close(ready)
        for fd in fds:
            os.close(fd)
        line.send(json.dumps(answer).encode())


def _import_all() -> set[str]:
    """Import what can be imported once for all; return which variables that read."""
    read: set[str] = set()
    kind: Any = type(os.environ)
    plain = kind.__getitem__

    def noted(self: Any, name: str) -> str:
        read.add(name)
        value: str = plain(self, name)
        return value

    kind.__getitem__ = noted
    importlib.import_module(MODULE).load()
    del sys.modules[MODULE]  # it becomes __main__
    for name in MODULES:
        importlib.import_module(name)
    kind.__getitem__ = plain
    return read


def _must_be_plain(order: Order, read: set[str]) -> bool:
    """Say whether an import would have gone otherwise in this environment."""
    env: dict[str, str] = order["env"]
    at_start = {name for name in {*env, *os.environ} if name.startswith(AT_START)}
    if any(env.get(name) != os.environ.get(name) for name in read | at_start - HERE):
        return True
    known = {name.partition(".")[0] for name in sys.modules} | SITE
    for place in {Path(order["cwd"]), *_pythonpath(order)}:
        if not place.is_dir() or place.resolve() == ROOT:
            continue
        if any(one.name.partition(".")[0] in known for one in place.iterdir()):
            return True
    return False


def _pythonpath(order: Order) -> list[Path]:
    places = order["env"].get("PYTHONPATH")
    return (
        [Path(order["cwd"], one) for one in places.split(os.pathsep)] if places else []
    )


def _become(order: Order, fds: list[int]) -> None:
    """Turn this process into the one that was asked for."""
    if order["session"]:
        os.setsid()
    if order["group"] >= 0:
        os.setpgid(0, order["group"])
    os.chdir(order["cwd"])
    for own, fd in enumerate(fds):
        os.dup2(fd, own)
    env: dict[str, str] = order["env"]
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    _write_anew(unbuffered=bool(env.get("PYTHONUNBUFFERED")))
    places = [*map(str, _pythonpath(order)), *sys.path[1:]]
    sys.path[:] = [order["cwd"], *dict.fromkeys(places)]
    importlib.invalidate_caches()
    for name in ("multiprocessing.process", "billiard.process"):
        if name in sys.modules:  # where children that are spawned begin
            sys.modules[name].ORIGINAL_DIR = order["cwd"]  # type: ignore[attr-defined]
    sys.argv[:] = ["-m", *order["words"]]
    sys.orig_argv[:] = [sys.executable, "-m", MODULE, *order["words"]]
    sys.modules["__main__"] = ModuleType("__main__")
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the server waits for this


def _write_anew(*, unbuffered: bool) -> None:
    for fd, name in ((1, "stdout"), (2, "stderr")):
        old = getattr(sys, f"__{name}__")
        raw: Any = io.FileIO(fd, "w", closefd=False)
        raw.name = f"<{name}>"
        stream: Any = io.TextIOWrapper(
            raw if unbuffered else io.BufferedWriter(raw),
            encoding=old.encoding,
            errors=old.errors,
            newline="\n",
            line_buffering=not unbuffered and (fd != 1 or raw.isatty()),
            write_through=unbuffered,
        )
        stream.mode = "w"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__" and serve(socket.socket(fileno=int(sys.argv[1]))):
    as_main: Any = runpy
    as_main._run_module_as_main(MODULE)
