"""PgBouncer in transaction mode: each statement may run in another session."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from celery_pecker.testing import eventually, free_port
from tests.integration.surroundings.conftest import Begin
from tests.integration.surroundings.whole import stand
from tests.services import absent

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

CONF = """
[databases]
* = host={host} port={at} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = /dev/fd/{users}
pool_mode = transaction
default_pool_size = 3
"""


@pytest.fixture
def pooled(dsn: str, tmp_path: Path) -> Iterator[str]:
    """Give the way to the test's database through a pooler."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        absent("PgBouncer", "not installed", required=False)
    parts = conninfo.conninfo_to_dict(dsn)
    port = free_port()
    user, password = parts["user"], parts.get("password", "")
    conf, known = tmp_path / "pgbouncer.ini", tmp_path / "users"
    known.write_text(f'"{user}" "{password}"\n')
    pooled = dsn.replace(f":{parts['port']}/", f":{port}/")
    assert pooled != dsn
    with (
        known.open() as users,
        conf.open("w+") as stdin,
        (tmp_path / "log").open("wb") as log,
    ):
        told = {"host": parts["host"], "at": parts["port"], "port": port}
        told |= {"user": user, "password": password, "users": users.fileno()}
        stdin.write(CONF.format(**told))
        stdin.seek(0)
        for file in (conf, known):  # others do not pass the directory
            file.chmod(0o644)
        process = subprocess.Popen(
            [program, "/dev/stdin"],
            stdin=stdin,
            stdout=log,
            stderr=log,
            pass_fds=[users.fileno()],
            # It refuses to run as root, who may be the only one to pass the directory.
            user="nobody" if os.geteuid() == 0 else None,
        )
    try:

        def answers() -> bool:
            with psycopg.connect(pooled, connect_timeout=2):
                return True

        eventually(answers, 30.0, "it answers", ignoring=(psycopg.Error,))
        yield pooled
    finally:
        process.terminate()
        process.wait(30.0)


def test_a_replica_keeps_its_pace_behind_a_pooler(
    pooled: str, redis_url: str, begin: Begin
) -> None:
    """No session is its own: no setting, lock or prepared statement stays in one."""
    begin(pooled, redis_url).sends(6)


def test_two_replicas_send_each_slot_once_through_it(
    pooled: str, dsn: str, redis_url: str, begin: Begin
) -> None:
    """One of them past the pooler."""
    begin(dsn, redis_url)
    begin(pooled, redis_url).sends(6)


def test_rows_of_every_kind_through_it(
    pooled: str, dsn: str, redis_url: str, queue_name: str
) -> None:
    """In a worker behind the pooler, with another one past it."""
    with stand(pooled, redis_url, queue_name) as made:
        made.worker()
        made.begin(0)
        made.ends(0)
        made.worker(pecker_dsn=dsn)
        made.begin(1)
        made.ends(1)
        made.stop(0)
