"""What is recorded arrives as if Celery had sent it, on Redis and on RabbitMQ.

Each shape is sent twice: by Celery straight to the broker, and into the table, from
where kombu's own channel brings the stored row to the same broker. What lies there is
compared byte for byte, ids aside.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from celery import Celery, signals
from kombu.common import maybe_declare
from kombu.utils.json import loads
from psycopg.rows import dict_row

from celery_pecker.brokers.publisher.entities import decode
from celery_pecker.outbox import Outbox
from tests.contract.outbox.shapes import calls, canvases
from tests.contract.publisher.cases import make_app
from tests.contract.publisher.conftest import Wire

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
BODY = re.compile(r'"body": "([A-Za-z0-9+/=]+)"')
"""Of a message on Redis: base64, in which ids cannot be seen."""
Messages = list[tuple[str, str]]


def numbered(messages: Messages) -> Messages:
    """Return the messages with ids replaced by their order of appearance."""
    seen: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return seen.setdefault(found[0], f"id-{len(seen)}")

    return [(place, ID.sub(number, opened(text))) for place, text in messages]


def opened(text: str) -> str:
    """Return the message with its body in the clear."""
    return BODY.sub(lambda found: b64decode(found[1]).decode("latin-1"), text)


def rows(dsn: str) -> list[dict[str, Any]]:
    """Take out what is recorded."""
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        found = connection.execute("select * from pecker_outbox order by id").fetchall()
        connection.execute("delete from pecker_outbox")
    return found


def deliver(app: Celery, found: list[dict[str, Any]]) -> None:
    """Bring stored rows to the broker by kombu's own channel, one after the other."""
    with app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        for row in found:
            for entity in decode(row["declare"]):
                maybe_declare(entity, channel)
            message = channel.prepare_message(
                row["body"],
                row["priority"],
                row["content_type"],
                row["content_encoding"],
                loads(row["headers"]),
                loads(row["properties"]),
            )
            channel.basic_publish(
                message, exchange=row["exchange"], routing_key=row["routing_key"]
            )


@pytest.fixture
def app(wire: Wire) -> Iterator[Celery]:
    """Give an app on the broker, with a result backend as chords need it."""
    settings = {**wire.settings, "result_backend": "cache+memory://"}
    made = make_app(wire.url, wire.prefix, **settings)
    yield made
    made.close()


def bind(app: Celery, wire: Wire) -> None:
    """Declare the queue on an exchange, as its worker has done."""
    with app.connection_for_write() as connection:
        known = app.amqp.queues[f"{wire.prefix}bound"]
        known.bind(connection.default_channel).declare()


def taken(app: Celery, wire: Wire) -> Messages:
    """Take what lies on the broker; a queue on an exchange is bound anew."""
    found = numbered(wire.take())
    bind(app, wire)
    return found


def test_each_shape_arrives_as_celery_sends_it(
    wire: Wire, app: Celery, dsn: str
) -> None:
    """More than sixty of them; on RabbitMQ with their properties, too."""
    app.conf.pecker_dsn = dsn
    outbox = Outbox(app)
    shapes = {
        **calls(app, wire.prefix),
        **{f"canvas: {n}": s for n, s in canvases(app.tasks["contract.plain"]).items()},
    }
    assert len(shapes) >= 60
    differ: dict[str, object] = {}
    bind(app, wire)
    for name, shape in shapes.items():
        # An expiry is rounded to half a minute: a pair that straddles one tries again.
        expected: Messages = []
        arrived: Messages = []
        for _ in range(2):
            shape().apply_async()
            expected = taken(app, wire)
            with psycopg.connect(dsn) as connection:
                outbox.send(shape(), connection=connection)
            assert taken(app, wire) == [], f"{name}: sent before it was delivered"
            deliver(app, rows(dsn))
            arrived = taken(app, wire)
            if arrived == expected:
                break
        else:
            differ[name] = expected, arrived
        assert expected or name == "expired long ago", name
    assert differ == {}
    outbox.close()


def test_signals_and_receivers_act_on_the_message_at_the_call(
    wire: Wire, app: Celery, dsn: str
) -> None:
    """A header that a receiver adds is in the row; each is called once."""
    seen: list[str] = []

    def before(headers: Any = None, **_: object) -> None:
        headers["traceparent"] = "00-1"
        seen.append("before")

    def after(**_: object) -> None:
        seen.append("after")

    app.conf.pecker_dsn = dsn
    outbox = Outbox(app)
    signals.before_task_publish.connect(before)
    signals.after_task_publish.connect(after)
    try:
        with psycopg.connect(dsn) as connection:
            outbox.send(app.tasks["contract.plain"].s(1), connection=connection)
    finally:
        signals.before_task_publish.disconnect(before)
        signals.after_task_publish.disconnect(after)
    assert seen == ["before", "after"]
    [row] = rows(dsn)
    assert loads(row["headers"])["traceparent"] == "00-1"
    outbox.close()


def test_a_wait_is_in_the_table_and_not_in_the_message(
    wire: Wire, app: Celery, dsn: str
) -> None:
    """The message is the one of a call without it: no worker keeps it in memory."""
    app.conf.pecker_dsn = dsn
    outbox = Outbox(app)
    note = app.tasks["contract.plain"]
    note.apply_async((1,))
    expected = numbered(wire.take())
    with psycopg.connect(dsn) as connection:
        outbox.send(note.s(1), connection=connection, countdown=90)
    [row] = rows(dsn)
    assert (row["due_at"] - row["created_at"]).total_seconds() == 90
    deliver(app, [row])
    assert numbered(wire.take()) == expected
    outbox.close()
