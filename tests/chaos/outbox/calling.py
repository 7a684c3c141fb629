"""A process that records tasks beside orders, in transactions that end either way.

    python -m tests.chaos.outbox.calling DSN QUEUE SEED

An order that is committed has a task under its id; one that was rolled back has none.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import psycopg
from celery import Celery

from celery_pecker.kernel.clock import pause
from celery_pecker.outbox import Outbox

PAUSE = 0.01
"""Seconds between two transactions."""


def main(dsn: str, queue: str, seed: str) -> None:
    """Call until somebody ends the process; what fails is tried anew."""
    chance = random.Random(seed)
    app = Celery("calling", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.update(pecker_dsn=dsn, task_default_queue=queue)
    outbox = Outbox(app)

    @app.task(name="chaos.work", shared=False)
    def work(number: int) -> int:
        return number

    while True:
        try:
            with psycopg.connect(dsn, connect_timeout=5) as connection:
                while True:
                    _order(connection, outbox, work, chance)
                    pause(PAUSE)
        except psycopg.Error:
            pause(0.1)


def _order(
    connection: psycopg.Connection[Any],
    outbox: Outbox,
    work: Any,
    chance: random.Random,
) -> None:
    """Take one order, or several, and roll back one time in five."""
    for number in range(chance.choice((1, 1, 1, 20))):
        signature = work.s(number)
        if chance.random() < 0.25:
            signature.set(countdown=0.3)
        result = outbox.send(signature, connection=connection)
        connection.execute("insert into orders values (%s)", [result.id])
    if chance.random() < 0.2:
        connection.rollback()
    else:
        connection.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
