"""A process that records tasks beside orders, in transactions that end either way.

    python -m tests.chaos.outbox.calling DSN QUEUE FOLDER SEED TASK…

An order that is committed has a task under its id; one that was rolled back has none.
"""

from __future__ import annotations

import random
from typing import Any

import psycopg
from celery import Celery

from celery_pecker.kernel.clock import pause
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.outbox import Outbox
from tests.chaos.outbox.strikes import Strikes
from tests.chaos.outbox.working import MODES
from tests.told import told

PAUSE = 0.01
"""Seconds between two transactions."""
MOST_WAITING = 300
"""Rows; callers rest while more of them wait to be run."""


class Caller:
    """Takes orders."""

    def __init__(self, dsn: str, queue: str, folder: str, seed: str) -> None:
        self.chance = random.Random(seed)
        self.app = Celery("calling", broker="redis://127.0.0.1:1/0")
        self.app.conf.update(pecker_dsn=dsn, task_default_queue=queue)
        self.outbox = Outbox(self.app)
        self.strikes = Strikes(folder)
        self.strikes.watch(self.outbox, "send")

    def order(self, connection: psycopg.Connection[Any], tasks: list[str]) -> None:
        """Take one order, or several, and roll back one time in five."""
        chance = self.chance
        for number in range(chance.choice((1, 1, 1, 20))):
            task = chance.choice(tasks)
            options: dict[str, Any] = {"mode": MODES[task]} if task in MODES else {}
            if chance.random() < 0.25:
                options["countdown"] = 0.3
            signature = self.app.signature(task, (number,))
            result = self.outbox.send(signature, connection=connection, **options)
            connection.execute("insert into orders values (%s)", [result.id])
        if chance.random() < 0.2:
            connection.rollback()
            return
        self.strikes.come_to("before commit")
        self._commit(connection)
        self.strikes.come_to("after commit")

    def too_many(self, connection: psycopg.Connection[Any]) -> bool:
        """Say whether workers have enough to do."""
        with connection.transaction():
            found = connection.execute("select count(*) from pecker_outbox").fetchone()
        return found is not None and found[0] > MOST_WAITING

    def _commit(self, connection: psycopg.Connection[Any]) -> None:
        """Commit; between the question and its answer is a point, too."""
        link = connection.pgconn
        link.send_query(b"commit")
        while link.flush():
            pause(0.001)
        self.strikes.come_to("in commit")
        while link.get_result() is not None:
            pass
        if connection.closed:
            message = "the answer to the commit is lost"
            raise psycopg.OperationalError(message)


def main(dsn: str, queue: str, folder: str, seed: str, *tasks: str) -> None:
    """Call until somebody ends the process; what fails is tried anew."""
    caller = Caller(dsn, queue, folder, seed)
    bounded = bool({*tasks} & {*MODES})
    while True:
        try:
            with psycopg.connect(dsn, connect_timeout=5) as connection:
                while True:
                    caller.order(connection, [*tasks])
                    pause(PAUSE)
                    while bounded and caller.too_many(connection):
                        pause(0.5)
        except (psycopg.Error, PeckerError):  # such as a transaction that was aborted
            pause(0.1)


if __name__ == "__main__":
    main(*told())
