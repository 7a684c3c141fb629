"""An older version of celery-pecker really runs beside this one, on one table.

Its code is that of an older commit of this repository: the first one with an outbox,
which knows the schema up to step 5.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import psycopg
import pytest

from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer

pytestmark = [pytest.mark.soak, pytest.mark.cluster]

OLDER = "122a550f8469b13246d8065e76c020b992764c95"
HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ROLES: dict[str, dict[str, object]] = {
    "this": {"pecker_worker": ["scheduler", "outbox"]},
    "older": {"pecker_worker": True, "pecker_outbox_local": True},
}
COUNT = 20
"""Of each kind, from each caller."""
TABLES = """
create table orders (task_id text primary key, kind text not null);
create table ran (task_id text not null, version text not null);
insert into pecker_outbox_load values (1, 4, 0.05, 0.05, 0, null, now())
"""
ENDS = """
select orders.kind, count(ran.version) from orders left join ran using (task_id)
group by orders.task_id, orders.kind
"""


class Shop:
    """Callers and workers of either version, on one database and broker."""

    def __init__(self, dsn: str, broker: str, queue: str, folder: Path) -> None:
        self.folder = folder
        self.workers: dict[str, ProcessContainer] = {}
        self._connection = psycopg.connect(dsn, autocommit=True)
        self.ask(TABLES)
        self._broker = broker
        self._conf = {
            "pecker_dsn": dsn,
            "pecker_outbox_backoff": 5.0,
            "pecker_heartbeat_dir": str(folder / "alive"),
            "task_default_queue": queue,
            "task_ignore_result": True,
            "worker_enable_remote_control": False,
            "broker_connection_retry_on_startup": True,
        }

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement of the test's own."""
        cursor = self._connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def call(self, version: str) -> None:
        """Record tasks of each kind, as a caller of that version."""
        command = [sys.executable, str(HERE / "shop.py"), str(COUNT)]
        env = {**os.environ, **self._of(version)}
        subprocess.run(command, env=env, cwd=self.folder, check=True, timeout=120)

    def work(self, version: str) -> ProcessContainer:
        """Start a worker of that version; it delivers, and runs tasks."""
        options = ("--without-gossip", "--without-mingle", "-n", f"{version}@here")
        worker = ProcessContainer(
            [
                *(sys.executable, "-m", "celery", "-A", "shop", "worker"),
                *("-P", "threads", "-c", "4", "-l", "INFO", *options),
            ],
            name=version,
            cwd=self.folder,
            env=self._of(version),
        )
        self.workers[version] = worker
        worker.start()
        return worker

    def until_empty(self) -> None:
        """Wait until all is done, or fail with the logs."""
        try:
            eventually(
                lambda: self.ask("select 1 from pecker_outbox limit 1") == [],
                180.0,
                "the outbox is empty",
            )
        except AssertionError as error:
            for worker in self.workers.values():
                error.add_note(worker.life_log()[-4_000:])
            raise

    def ran_by(self) -> set[str]:
        """Return the versions that ran tasks."""
        return {version for (version,) in self.ask("select distinct version from ran")}

    def close(self) -> None:
        """Leave nothing running."""
        for worker in self.workers.values():
            worker.remove()
        self._connection.close()

    def _of(self, version: str) -> dict[str, str]:
        tree = ROOT if version == "this" else self.folder / "older"
        paths = os.pathsep.join([str(tree), str(HERE)])
        return {
            "SHOP_BROKER": self._broker,
            "SHOP_CONF": json.dumps({**self._conf, **ROLES[version]}),
            "SHOP_VERSION": version,
            "PYTHONPATH": paths,
        }


@pytest.fixture
def shop(dsn: str, redis_url: str, queue_name: str, tmp_path: Path) -> Iterator[Shop]:
    """Give the code of both versions, on tables of this one."""
    packages = ("celery_pecker", "celery_sharding", "throttle")
    tree = subprocess.run(
        ["git", "archive", OLDER, *packages],  # noqa: S607  # where it is
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if tree.returncode:
        pytest.skip(f"no history here: {tree.stderr.decode()[:200]}")
    with tarfile.open(fileobj=BytesIO(tree.stdout)) as packed:
        packed.extractall(tmp_path / "older", filter="data")
    with ExitStack() as stack:
        made = Shop(dsn, redis_url, queue_name, tmp_path)
        stack.callback(made.close)
        yield made


@pytest.mark.parametrize(("calls", "works"), [("older", "this"), ("this", "older")])
def test_what_one_version_records_the_other_delivers_and_runs(
    calls: str, works: str, shop: Shop
) -> None:
    """Messages of the outbox are whole, and its rows are read by both."""
    shop.call(calls)
    shop.work(works)
    shop.until_empty()
    eventually(lambda: _ends(shop) == EXPECTED, 60.0, "each has run as it should")
    assert shop.ran_by() == {works}


def test_both_versions_work_beside_each_other_and_one_is_killed(shop: Shop) -> None:
    """Nothing is lost; what is sent by relays is not doubled on Redis."""
    older = shop.work("older")
    shop.work("this")
    for _ in range(3):
        shop.call("this")
        shop.call("older")
    eventually(lambda: shop.ran_by() == {"older", "this"}, 60.0, "both have run some")
    older.kill()
    shop.call("older")
    shop.until_empty()
    # What the killed worker had taken from the broker is lost to it, as Celery's
    # messages are; only rows that live until their task is done come again.
    ends = {kind: ran for kind, ran in _ends(shop) if kind != "sent"}
    assert set(ends) == {"done", "here"}
    assert min(ran for kind, ran in _ends(shop) if kind != "sent") >= 2
    assert max(ran for kind, ran in _ends(shop) if kind == "sent") == 1


def _ends(shop: Shop) -> Counter[tuple[str, int]]:
    """Return how many tasks of a kind ran how often."""
    return Counter(shop.ask(ENDS))


EXPECTED = Counter({("sent", 1): COUNT, ("done", 2): COUNT, ("here", 2): COUNT})
