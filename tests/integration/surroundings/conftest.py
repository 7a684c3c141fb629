"""A replica beside servers as people have them: pooled, encrypted, replicated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from amqp.exceptions import InternalError
from celery import Celery
from kombu import Connection

from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules.declarations.beat_schedule import BeatSchedule
from celery_pecker.schedules.replica import Claimant, Replica
from celery_pecker.testing import eventually

DUE: Any = "due_at"
Begin = Callable[..., "Played"]


class Played:
    """A replica of one entry, every half second, and what it has sent."""

    def __init__(self, app: Celery, replica: Replica) -> None:
        self.app = app
        self.replica = replica
        self.due: list[str] = []
        """The slots that were taken from the queue, in order."""

    def take(self) -> None:
        """Take what lies in the queue."""
        conf = self.app.conf
        with Connection(
            conf.broker_url, ssl=conf.broker_use_ssl or False
        ) as connection:
            queue = self.app.amqp.queues[conf.task_default_queue]
            channel: Any = connection.default_channel
            bound: Any = queue(channel)
            # Until the replica has declared it there is none; a quorum queue that was
            # declared a moment before has no process yet that answers (noproc).
            with suppress(*connection.channel_errors, InternalError):
                while (message := bound.get()) is not None:
                    self.due.append(message.headers["pecker"][DUE])
                    message.ack()

    def sends(self, many: int) -> None:
        """So many further slots are sent, each once."""
        wanted = len(self.due) + many

        def enough() -> bool:
            self.take()
            return len(self.due) >= wanted

        eventually(enough, 60.0, f"{many} further slots", interval=0.1)
        assert len(self.due) == len({*self.due}), self.due


@pytest.fixture
def begin(queue_name: str) -> Iterator[Begin]:
    """Give a function that starts a replica on a database and a broker."""
    with ExitStack() as stack:

        def start(dsn: str, broker: str, **conf: object) -> Played:
            app = Celery("proj", broker=broker, set_as_current=False)

            @app.task(name="proj.note", shared=False)
            def note() -> None: ...

            app.conf.update(
                pecker_dsn=dsn,
                task_default_queue=queue_name,
                beat_schedule={"note": {"task": "proj.note", "schedule": 0.5}},
                result_expires=None,
                **conf,
            )
            settings = Settings.read(app.conf, main=app.main)
            replica = Replica(
                Claimant(app, BeatSchedule(app), settings, kind="beat"),
                freeze_heap=False,
            )
            stack.callback(app.close)
            stack.callback(replica.close_history, 5.0)
            stack.callback(replica.join, 5.0)
            stack.callback(replica.stop)
            replica.start()
            return Played(app, replica)

        yield start
