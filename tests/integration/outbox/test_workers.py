"""Mails that run until they are done, in workers of their own on real brokers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from celery import Celery

from celery_pecker.kernel.clock import new_tag
from celery_pecker.kernel.database import Database
from celery_pecker.outbox import Outbox
from celery_pecker.outbox.operations import Which, reschedule
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.constants import constants
from tests.integration.outbox.stored import Table

ROOT = Path(__file__).parents[3]
QUICK = ("--without-gossip", "--without-mingle", "--without-heartbeat")
LOCAL = {"here", "first_hangs", "first_waits"}
HOLD = 120.0
"""Seconds: nothing here waits for it. Holds are ended by hand, as an operator does."""


class Office:
    """A worker of the mail app, and who records mails for it."""

    def __init__(
        self, dsn: str, broker: str, folder: Path, queue: str, pool: str
    ) -> None:
        self.table = Table(dsn)
        self.pool = pool
        self.ids: dict[int, str] = {}
        self.table.execute(
            "create table mails (id int primary key, server text,"
            " status text not null default 'new', runs int not null default 0)"
        )
        self.folder = folder
        self._broker = broker
        self._conf = {
            "pecker_dsn": dsn,
            "pecker_heartbeat_dir": str(folder / "alive"),
            "pecker_outbox_backoff": HOLD,
            "task_default_queue": queue,
        }
        self.app = Celery("mails", broker=broker, set_as_current=False)
        self.app.conf.update(self._conf)
        self.outbox = Outbox(self.app)
        self.workers: list[ProcessContainer] = []
        self._number = 0
        load = (
            "insert into pecker_outbox_load values (1, 4, 0.05, 0.05, 0, null, now())",
        )
        self.table.execute(*load)

    def worker(self) -> ProcessContainer:
        """Start a worker."""
        name = f"mails-{len(self.workers)}"
        command = ["worker", "-P", self.pool, "-c", "2", "-n", f"{name}@here", *QUICK]
        process = ProcessContainer(
            [
                *(sys.executable, "-m", "tests.lean"),
                *("-A", "tests.integration.outbox.mail_app", *command, "-l", "INFO"),
            ],
            name=name,
            cwd=ROOT,
            env={
                "PECKER_TEST_FOLDER": str(self.folder),
                "PECKER_TEST_BROKER": self._broker,
                "PECKER_TEST_CONF": json.dumps(self._conf),
                **constants(longest_hold=HOLD),
            },
        )
        self.workers.append(process)
        process.start()
        return process

    def record(self, task: str, *servers: str) -> list[int]:
        """Write mails and their tasks in one transaction; return the mails."""
        mails = []
        signature = self.app.signature
        with psycopg.connect(self.table.dsn) as connection:
            for server in servers:
                self._number += 1
                mails.append(self._number)
                connection.execute(
                    "insert into mails values (%s, %s)", [self._number, server]
                )
                args = (self._number, server) if server else (self._number,)
                result = self.outbox.send(
                    signature(task, args),
                    connection=connection,
                    mode="local" if task in LOCAL else "until_done",
                )
                self.ids[self._number] = result.id
        return mails

    def statuses(self, mails: list[int]) -> list[tuple[Any, ...]]:
        """Return what became of mails."""
        return self.table.execute(
            "select status, runs from mails where id = any(%s) order by id", mails
        )

    def attempts(self, mails: list[int]) -> list[tuple[Any, ...]]:
        """Return the attempts that did mails, and whether it was the emergency."""
        return self.table.execute(
            "select attempt, emergency from pecker_outbox_done"
            " where task_id = any(%s) order by id",
            [self.ids[mail] for mail in mails],
        )

    def all_done(self) -> bool:
        """Whether no row is left."""
        return self.table.rows == 0

    def end_holds(self) -> None:
        """Say that runs have ended although nobody reported it."""
        database = Database(self.table.dsn, schema="public", timeout=30.0)
        which = Which(all_rows=True)
        assert reschedule(database, which, delay=0.0, ended=True) == 1
        database.close()

    def let_fail(self) -> bool:
        """Let the holds of runs that failed be over; whether no row is left."""
        self.table.execute(
            "update pecker_outbox set due_at = clock_timestamp()"
            " where running is null and last_error is not null"
            " and pushes is null"
        )
        return self.all_done()

    def until(self, condition: Any, said: str, timeout: float = 60.0) -> None:
        """Wait until it came true, or fail with the logs."""
        try:
            eventually(condition, timeout, said)
        except AssertionError as error:
            error.add_note(str(self.table.execute("select * from mails")))
            for process in self.workers:
                error.add_note(process.life_log()[-4000:])
            raise

    def close(self) -> None:
        """Leave nothing running."""
        for process in self.workers:
            process.remove()
        self.outbox.close()
        self.app.close()


@pytest.fixture(scope="module", params=["redis prefork", "rabbitmq threads"])
def office(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Office]:
    """Give a worker on each broker, one for all tests."""
    kind, _, pool = request.param.partition(" ")
    queue = f"mails-{kind}"
    if kind == "redis":
        stand = request.getfixturevalue("redis_server")
        stand.flush()
        broker = stand.url
    else:
        broker = request.getfixturevalue("amqp_server")
    postgres = request.getfixturevalue("postgres_server")
    with ExitStack() as stack:
        dsn = stack.enter_context(postgres.fresh(migrated=True))
        made = Office(dsn, broker, tmp_path_factory.mktemp("mails"), queue, pool)
        stack.callback(made.close)
        made.worker()
        yield made


@pytest.mark.parametrize("task", ["by_message", "here"])
def test_three_mail_servers_one_of_them_broken(office: Office, task: str) -> None:
    """What goes by the others goes at once; the fifth failure tells the sender."""
    mails = office.record(task, *"abcabcabc")
    office.until(office.let_fail, "all mails are done")
    good, bad = ("sent", 1), ("unsendable by c", 1)
    assert office.statuses(mails) == [good, good, bad] * 3
    once, fifth = (1, False), (5, True)
    assert office.attempts(mails) == [once, once, fifth] * 3


def test_a_rollback_sends_nothing(office: Office) -> None:
    """And what is committed after it is sent."""
    with psycopg.connect(office.table.dsn) as connection:
        gone = office.app.signature("by_message", (999, "a"))
        office.outbox.send(gone, connection=connection, mode="until_done")
        connection.rollback()
    mails = office.record("by_message", "a")
    office.until(office.all_done, "the mail is done")
    assert office.statuses(mails) == [("sent", 1)]


@pytest.mark.parametrize("task", ["by_message", "here"])
def test_what_expired_or_was_revoked_is_parked(office: Office, task: str) -> None:
    """Nobody runs it: a message that is not run would be sent again for ever."""
    revoked = new_tag()
    office.until(
        lambda: office.app.control.revoke(revoked, reply=True, timeout=5.0, limit=1),
        "a worker knows it",
    )
    mode = "local" if task in LOCAL else "until_done"
    sent: list[dict[str, Any]] = [
        {"task_id": revoked},
        {"expires": 0.1, "countdown": 1},
    ]
    ids = [
        office.outbox.send(office.app.signature(task, (0, "a")), mode=mode, **one).id
        for one in sent
    ]

    def parked() -> list[str]:
        return [
            error
            for (error,) in office.table.execute(
                "select last_error from pecker_outbox where task_id = any(%s)"
                " and parked_at is not null order by id",
                ids,
            )
        ]

    office.until(lambda: len(parked()) == len(ids), "both are parked")
    assert ["revoked" in parked()[0], "expired" in parked()[1]] == [True, True]
    office.table.execute("delete from pecker_outbox")


@pytest.mark.parametrize(
    ("name", "serializer", "why"),
    [("nowhere", "json", "nowhere"), ("by_message", "pickle", "pickle")],
    ids=["no such task", "content that workers refuse"],
)
def test_what_no_worker_can_run_is_parked_after_its_last_attempt(
    office: Office, name: str, serializer: str, why: str
) -> None:
    """Each message that a worker refuses is an attempt: it is not sent for ever."""
    result = office.outbox.send(
        office.app.signature(name, (0, "a")), mode="until_done", serializer=serializer
    )

    def refused() -> tuple[Any, ...]:
        [row] = office.table.execute(
            "select attempt, running, parked_at is not null, coalesce(last_error, '')"
            " from pecker_outbox where task_id = %s",
            result.id,
        )
        return (*row[:3], why in row[3])

    office.until(lambda: refused() == (1, None, False, True), "the first is counted")
    office.table.execute("update pecker_outbox set attempt = 19")
    office.let_fail()
    office.until(lambda: refused() == (20, None, True, True), "the last one parks it")
    office.table.execute("delete from pecker_outbox")


def test_a_task_whose_process_is_killed_runs_again(office: Office) -> None:
    """When its hold is over: the row knew of the start, nobody of an end."""
    if office.pool != "prefork":
        pytest.skip("a thread is not killed without its worker")
    mails = office.record("first_dies", "")
    flag = office.folder / f"died-{mails[0]}"
    office.until(flag.exists, "its process died")
    office.end_holds()
    office.until(office.all_done, "the mail is done")
    assert office.statuses(mails) == [("sent", 3)]
    assert office.attempts(mails) == [(2, False)]


def test_another_worker_takes_what_a_killed_one_had(office: Office) -> None:
    """It is killed in a run that hangs."""
    mails = office.record("first_hangs", "")
    flag = office.folder / f"hung-{mails[0]}"
    office.until(flag.exists, "it hangs")
    office.workers[-1].kill()
    office.end_holds()
    office.worker()
    office.until(office.all_done, "the mail is done")
    assert office.statuses(mails) == [("sent", 1)]
    assert office.attempts(mails) == [(2, False)]


def test_a_worker_that_freezes_in_a_run_closes_nothing_when_it_wakes(
    office: Office,
) -> None:
    """Another one has run its row: its own end finds a newer epoch."""
    mails = office.record("first_waits", "")
    flag = office.folder / f"waits-{mails[0]}"
    office.until(flag.exists, "it waits")
    frozen = office.workers[-1]
    frozen.kill("SIGSTOP")
    office.end_holds()
    office.worker()
    office.until(office.all_done, "the other worker did it")
    (office.folder / f"gate-{mails[0]}").touch()
    frozen.kill("SIGCONT")
    office.until(lambda: "is left out" in frozen.life_log(), "its end came too late")
    assert office.statuses(mails) == [("sent", 2)]
    assert office.attempts(mails) == [(2, False)]
    frozen.kill()
