"""Sends ``on_parked`` and ``on_moved``: what the tables say is to be sent.

A notice is written by the statement that parks or moves, so no death between the two
loses one. With an outbox it is recorded there and deleted here in one transaction: the
outbox has it exactly once. Without one it is sent to the broker and deleted then: at
least once, each time under the same task id.
"""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any

import psycopg

from celery_pecker.kernel import user_code
from celery_pecker.kernel.bounded_connection import BoundedConnection
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.rendering import render
from celery_pecker.observers.hosts.tables import Notice, Tables
from celery_pecker.sql import statements

logger = logging.getLogger(__name__)

AT_ONCE = 20
REST = 60.0
"""Seconds; a host that sees a notice wakes the thread."""
NAMESPACE = uuid.UUID("6f0b2a4e-6f0e-5d7c-9a57-4d1c8b7e2f30")
"""Of the task ids of notices; never changes."""


class Notices:
    """Sends notices, on a thread of its own: a broker may hang."""

    def __init__(
        self, app: Any, outbox: Any, tables: Tables, database: Database
    ) -> None:
        self._app = app
        self._outbox = outbox
        self._tables = tables
        self._database = database

    def step(self) -> float:
        """Send what there is; return the seconds to sleep."""
        some = self._tables.notices(AT_ONCE)
        for notice in some:
            error = user_code.tried(self._send, notice)[1]
            if error is not None:
                shown = user_code.shown(error)
                self._tables.notice_failed(notice.id, shown)
                logger.warning(
                    "pecker: a signature of an observer was not sent, tried again: %s",
                    shown,
                )
        return 0.0 if len(some) == AT_ONCE else REST

    def _send(self, notice: Notice) -> None:
        message = self._app.signature(json.loads(notice.signature))
        signature = message.clone(args=(json.loads(notice.event),))
        text = f"{self._database.schema}\0{notice.id}"
        signature.set(task_id=str(uuid.uuid5(NAMESPACE, text)))
        if self._outbox is None:
            signature.apply_async()
            self._tables.notice_sent(notice.id)
            return
        with self._connection() as connection:
            closed = render(
                statements()["close_observer_notice"], self._database.schema
            )
            gone = connection.execute(closed.encode(), {"id": notice.id}).rowcount == 0
            if gone:  # this was slow, and another host has sent it
                return
            self._outbox.send(signature, connection=connection)

    def _connection(self) -> psycopg.Connection[Any]:
        return BoundedConnection.within(self._database.dsn, 10.0)
