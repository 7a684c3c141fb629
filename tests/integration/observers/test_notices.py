"""What ``on_parked`` and ``on_moved`` become: sent, tried again, never lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from queue import Empty
from typing import Any

import psycopg
import pytest
from celery import Celery, Signature

from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.observers.hosts.host_main import Notices
from celery_pecker.observers.hosts.tables import Outcome, Tables
from celery_pecker.observers.model import Report
from tests.integration.observers.conftest import Desk

DUE = "update pecker_observer_notices set held_until = now()"
KEPT = "select tries, last_error from pecker_observer_notices"


class Outbox:
    """An outbox that writes what it is called with, and may fail."""

    def __init__(self) -> None:
        self.broken = False

    def send(self, signature: Any, *, connection: psycopg.Connection[Any]) -> None:
        """Write a signature in the transaction of its notice."""
        connection.execute(
            "insert into sent (task_id, args) values (%s, %s)",
            [signature.options["task_id"], json.dumps(signature.args)],
        )
        if self.broken:
            message = "the outbox is broken"
            raise RuntimeError(message)


@pytest.fixture
def host(desk: Desk) -> Tables:
    """Give the tables as a host sees them."""
    desk.sql("create table sent (task_id text, args text)")
    return desk.host()


@pytest.fixture
def queue() -> str:
    """Give a queue that no other test has."""
    return f"notices-{new_id()}"


@pytest.fixture
def database(desk: Desk) -> Iterator[Database]:
    """Give the connection of a sender."""
    made = Database.of(desk.observers.settings, role="observers")
    yield made
    made.close()


def park(desk: Desk, host: Tables, name: str, signature: Signature[Any]) -> None:
    """Start an observer, and report it as parked."""
    desk.watch.start(name, on_parked=signature)
    [claimed] = host.claim(10, 10)
    outcome = Outcome(
        id=claimed.id, epoch=claimed.epoch, report=Report.PARKED, error="why"
    )
    host.report([outcome])


def tell(app: Celery, queue: str, **options: Any) -> Signature[Any]:
    """Return a signature of a task that no code here has."""
    return app.signature("tell", options={"queue": queue, **options})


def messages(app: Celery, queue: str) -> list[tuple[str, Any]]:
    """Take what is in a queue: ids of tasks and their first arguments."""
    taken = []
    with app.connection_for_read() as connection:
        box = connection.SimpleQueue(queue)
        while True:
            try:
                message = box.get(block=False)
            except Empty:
                break
            message.ack()
            taken.append((message.headers["id"], message.payload[0][0]))
        box.close()
    return taken


def test_a_parked_and_a_moved_one_are_told_to_the_broker(
    desk: Desk, host: Tables, queue: str, database: Database
) -> None:
    """With what happened as the first argument; then nothing is left to send."""
    app = desk.observers.app
    park(desk, host, "btc", tell(app, queue))
    desk.watch.start("eth", on_moved=tell(app, queue))
    [claimed] = host.claim(10, 10)
    released = Outcome(id=claimed.id, epoch=claimed.epoch, report=Report.RELEASED)
    host.report([released])
    other = desk.host("other")
    assert len(other.claim(10, 10)) == 1
    Notices(app, None, other).step()
    sent = [event for _, event in messages(app, queue)]
    assert [one["event"] for one in sent] == ["parked", "moved"]
    assert sent[0]["error"] == "why"
    assert (sent[1]["from"], sent[1]["node"]) == (host.node, other.node)
    assert desk.sql(KEPT) == []


def test_a_broken_signature_holds_no_other_up_and_is_kept(
    desk: Desk, host: Tables, queue: str, database: Database
) -> None:
    """It is tried again, less and less often, with its error in the row."""
    app = desk.observers.app
    park(desk, host, "bad", tell(app, queue, serializer="no such"))
    park(desk, host, "good", tell(app, queue))
    sender = Notices(app, None, host)
    sender.step()
    [(_, event)] = messages(app, queue)
    assert event["name"] == "good"
    [(tries, error)] = desk.sql(KEPT)
    assert tries == 1
    assert "no such" in error
    desk.sql(DUE)
    sender.step()
    assert [tries for tries, _ in desk.sql(KEPT)] == [2]


def test_one_that_was_tried_for_months_holds_no_other_up(
    desk: Desk, host: Tables, queue: str, database: Database
) -> None:
    """The wait is doubled with each try, and must not overflow."""
    app = desk.observers.app
    park(desk, host, "bad", tell(app, queue, serializer="no such"))
    desk.sql("update pecker_observer_notices set tries = 5000")
    park(desk, host, "good", tell(app, queue))
    Notices(app, None, host).step()
    assert [event["name"] for _, event in messages(app, queue)] == ["good"]
    [(tries, hour)] = desk.sql(
        "select tries, held_until <= now() + interval '1 hour'"
        " from pecker_observer_notices"
    )
    assert (tries, hour) == (5001, True)


def test_one_that_a_dead_host_had_in_hand_is_sent_by_another(
    desk: Desk, host: Tables, queue: str, database: Database
) -> None:
    """Once the time is over for which nobody else takes it."""
    app = desk.observers.app
    park(desk, host, "btc", tell(app, queue))
    assert len(host.notices(10)) == 1
    sender = Notices(app, None, desk.host("other"))
    sender.step()
    assert messages(app, queue) == []
    desk.sql(DUE)
    sender.step()
    assert len(messages(app, queue)) == 1
    assert desk.sql(KEPT) == []


def test_the_task_id_of_a_notice_stays_the_same(
    desk: Desk, host: Tables, queue: str, database: Database
) -> None:
    """Whoever gets it twice can see that."""
    app = desk.observers.app
    park(desk, host, "btc", tell(app, queue))
    desk.sql("create table kept as select * from pecker_observer_notices")
    sender = Notices(app, None, host)
    sender.step()
    desk.sql(
        "insert into pecker_observer_notices overriding system value select * from kept"
    )
    sender.step()
    first, second = messages(app, queue)
    assert first == second


def test_an_outbox_that_fails_has_nothing_and_is_asked_once_more(
    desk: Desk, host: Tables, queue: str, database: Database
) -> None:
    """Its record and the end of the notice are one transaction."""
    app = desk.observers.app
    park(desk, host, "btc", tell(app, queue))
    outbox = Outbox()
    sender = Notices(app, outbox, host)
    outbox.broken = True
    sender.step()
    assert desk.sql("select * from sent") == []
    assert desk.sql(KEPT) == [(1, "RuntimeError: the outbox is broken")]
    outbox.broken = False
    desk.sql(DUE)
    sender.step()
    assert len(desk.sql("select * from sent")) == 1
    assert desk.sql(KEPT) == []


def test_of_two_hosts_with_one_notice_one_asks_the_outbox(
    desk: Desk,
    host: Tables,
    queue: str,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first was slow; the notice that it has in hand is gone."""
    app = desk.observers.app
    park(desk, host, "btc", tell(app, queue))
    in_hand = host.notices(10)
    assert len(in_hand) == 1
    desk.sql(DUE)
    Notices(app, Outbox(), desk.host("other")).step()
    monkeypatch.setattr(host, "notices", lambda _most: in_hand)
    Notices(app, Outbox(), host).step()
    assert len(desk.sql("select * from sent")) == 1
