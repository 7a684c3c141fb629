"""The tools that the chaos stands on do what they say to real processes and sockets."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.database_clock import DatabaseClock
from tests.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

SLEEPER = "import time; print('up', flush=True); time.sleep(60)"
FAMILY = (
    "import subprocess, sys, time;"
    "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "print(p.pid, flush=True); time.sleep(60)"
)


@pytest.fixture
def sleeper() -> Iterator[ProcessContainer]:
    """A process that says "up" and then sleeps."""
    process = ProcessContainer([sys.executable, "-c", SLEEPER], name="sleeper")
    process.start()
    yield process
    process.remove()


def state(pid: int) -> str:
    """Return the state letter of a process, empty when it is gone."""
    asked = subprocess.run(
        ["/bin/ps", "-o", "state=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip()[:1]


def test_a_killed_process_takes_its_children_along() -> None:
    """SIGKILL reaches the whole group, as a container's does."""
    process = ProcessContainer([sys.executable, "-c", FAMILY], name="family")
    process.start()
    child = int(eventually(lambda: process.life_log().strip(), 30.0))
    process.kill()
    assert process.status == "exited"
    eventually(lambda: state(child) in {"", "Z"}, 30.0)
    process.remove()


def test_a_frozen_process_can_be_ended(sleeper: ProcessContainer) -> None:
    """A stopped process answers no SIGTERM; stop() thaws it first."""
    eventually(lambda: "up" in sleeper.life_log(), 30.0)
    sleeper.kill("SIGSTOP")
    eventually(lambda: state(sleeper.pid) == "T", 30.0)
    sleeper.stop(timeout=5)
    assert sleeper.exit_code == -15


def test_a_new_life_has_a_log_of_its_own(sleeper: ProcessContainer) -> None:
    """The container's log spans its lives, the life's log begins with it."""
    eventually(lambda: "up\n" in sleeper.life_log(), 30.0)
    sleeper.restart()
    eventually(lambda: "up\n" in sleeper.life_log(), 30.0)
    assert sleeper.logs() == b"up\nup\n"
    assert sleeper.life_log() == "up\n"


def test_nothing_outlives_a_killed_test_run() -> None:
    """SIGKILL of the process that started it ends even a frozen process."""
    script = (
        "import sys, time\n"
        "from example_project.processes import ProcessContainer\n"
        f"p = ProcessContainer([sys.executable, '-c', {SLEEPER!r}], name='s')\n"
        "p.start(); p.kill('SIGSTOP')\n"
        "print(p.pid, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        orphan = int(owner.stdout.readline())
        owner.kill()
    eventually(lambda: state(orphan) in {"", "Z"}, 30.0)


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that says back what it hears, in capitals."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(wire: socket.socket) -> None:
        with wire:
            while heard := _heard(wire):
                wire.sendall(heard.upper())

    def accept() -> None:
        while True:
            try:
                wire, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(wire,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _heard(wire: socket.socket) -> bytes:
    try:
        return wire.recv(1000)
    except OSError:
        return b""


@pytest.fixture
def proxy(echo: int) -> Iterator[Proxy]:
    """A proxy before the echo server."""
    with Proxy("127.0.0.1", echo) as opened:
        yield opened


def dial(proxy: Proxy) -> socket.socket:
    """Return a connection by way of the proxy, which waits 0.3 s for an answer."""
    return socket.create_connection(("127.0.0.1", proxy.port), 0.3)


def test_an_open_proxy_passes_bytes_in_their_time(proxy: Proxy) -> None:
    """Both ways, late by the delay of each, and the goodbye too."""
    with dial(proxy) as wire:
        wire.sendall(b"a")
        assert wire.recv(10) == b"A"
        proxy.open(delay=0.05)
        began = SYSTEM.monotonic()
        wire.sendall(b"b")
        assert wire.recv(10) == b"B"
        assert SYSTEM.monotonic() - began >= 0.1
        wire.shutdown(socket.SHUT_WR)
        assert wire.recv(10) == b""
    eventually(lambda: proxy.connections() == 0, 30.0)


def test_a_hanging_proxy_accepts_and_never_answers_until_it_opens(proxy: Proxy) -> None:
    """Old and new connections hang; what was sent arrives in the end."""
    with dial(proxy) as old:
        proxy.hang()
        old.sendall(b"a")
        with dial(proxy) as new:
            new.sendall(b"b")
            for wire in (old, new):
                with pytest.raises(TimeoutError):
                    wire.recv(10)
            proxy.open()
            assert (old.recv(10), new.recv(10)) == (b"A", b"B")


def test_a_mute_proxy_delivers_requests_and_keeps_answers(proxy: Proxy) -> None:
    """After a cut the client never learns that the server has heard it."""
    with dial(proxy) as wire:
        proxy.mute()
        wire.sendall(b"a")
        with pytest.raises(TimeoutError):
            wire.recv(10)
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            wire.recv(10)


def test_a_refusing_proxy_resets_and_refuses_until_it_opens(proxy: Proxy) -> None:
    """The port is the same afterwards."""
    with dial(proxy) as wire:
        wire.sendall(b"a")
        assert wire.recv(10) == b"A"
        proxy.refuse()
        with pytest.raises(ConnectionResetError):
            wire.recv(10)
        with pytest.raises(ConnectionRefusedError):
            dial(proxy)
    proxy.open()
    with dial(proxy) as wire:
        wire.sendall(b"b")
        assert wire.recv(10) == b"B"


def test_the_clock_steps_for_its_own_dsn_only(empty_dsn: str) -> None:
    """Unqualified clock_timestamp() is shadowed, for running connections too."""
    ask = (
        "select extract(epoch from clock_timestamp() - pg_catalog.clock_timestamp())"
        "::float8"
    )
    with (
        DatabaseClock(empty_dsn) as clock,
        psycopg.connect(clock.dsn, autocommit=True) as stepped,
        psycopg.connect(empty_dsn, autocommit=True) as other,
    ):
        shown = []
        for ahead in (timedelta(), timedelta(minutes=-10), timedelta(minutes=10)):
            clock.step(ahead)
            for connection in (stepped, other):
                row = connection.execute(ask).fetchone()
                assert row is not None
                shown.append(round(row[0]))
    assert shown == [0, 0, -600, 0, 600, 0]
