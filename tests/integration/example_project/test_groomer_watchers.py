"""The observer of a media server, the gaps between its lives, and how they are shown.

That hosts are killed and drained is played by `make demo ACT=groomer`.
"""

from __future__ import annotations

import asyncio
import socketserver
import threading
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import psycopg
import pytest
from celery import Celery
from psycopg.pq import TransactionStatus
from rich.console import Console

from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import LeaseLost, ObserverRefused
from celery_pecker.observers import Observers
from celery_pecker.observers.hosts.tables import Tables
from celery_pecker.testing import free_port
from example_project.groomer import app as hosted
from example_project.groomer import picture, queries, watchers, wire
from example_project.groomer.hosts import DRAINED, KILLED
from example_project.groomer.lives import Event, Life, Watched, longest, watched_since
from example_project.groomer.play import Seen
from example_project.groomer.story import failures, show

LIMIT = 30.0
Connection = psycopg.Connection[Any]


class Answers(socketserver.StreamRequestHandler):
    """Answers as a media server that is well."""

    def handle(self) -> None:
        """Answer one line."""
        self.rfile.readline()
        self.wfile.write(wire.encode({"ok": True}))


class Overtaken:
    """A lease of epoch 3 that another life overtakes after some looks."""

    epoch = 3

    def __init__(self, looks: int) -> None:
        self._looks = looks

    async def guard(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Hold the open transaction, or raise."""
        assert connection.info.transaction_status is not TransactionStatus.IDLE
        self._looks -= 1
        if self._looks < 0:
            message = "another life has begun"
            raise LeaseLost(message)


@pytest.fixture
def tables(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """Give the groomer's tables, which the observer uses too."""
    monkeypatch.setattr(watchers, "SERVICE_DSN", dsn)
    monkeypatch.setattr(watchers, "LOOK", 0.01)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(queries.query("schema"))
        yield connection


@pytest.fixture
def known(dsn: str, tables: Connection) -> Iterator[Observers]:
    """Give observers of another app, in a database where hosts declared the kind."""
    del tables
    app = Celery("elsewhere", set_as_current=False)
    app.conf.update(pecker_dsn=dsn)
    observers = Observers(app)
    yield observers
    observers.close()


def look(address: wire.Address, looks: int) -> None:
    """Run the observer until it is overtaken."""
    lease = Overtaken(looks)
    life = watchers.watch_server(lease, server=1, host=address[0], port=address[1])
    with pytest.raises(LeaseLost):
        asyncio.run(asyncio.wait_for(life, LIMIT))


def test_each_look_is_written_while_the_observer_is_held(tables: Connection) -> None:
    """A row for the life; the server's answer counts as one that the groomer had."""
    values = {"server": 1, "host": wire.HOST, "port": 1}
    tables.execute(queries.query("add_server"), values)
    asked = "select answered_at from groomer_servers"
    before = tables.execute(asked).fetchone()
    with socketserver.ThreadingTCPServer((wire.HOST, 0), Answers) as media:
        threading.Thread(target=media.serve_forever, daemon=True).start()
        look((wire.HOST, media.server_address[1]), looks=2)
        media.shutdown()
    [(server, epoch, _, first, last)] = tables.execute(
        queries.query("watches")
    ).fetchall()
    assert (server, epoch) == (1, 3)
    assert first < last
    assert (tables.execute(asked).fetchone() or ()) > (before or ())
    look((wire.HOST, free_port()), looks=1)
    answered = "select answered from groomer_watches"
    assert tables.execute(answered).fetchall() == [(False,)]


def test_an_overtaken_life_writes_no_look(tables: Connection) -> None:
    """The host that has taken over writes them."""
    look((wire.HOST, free_port()), looks=0)
    assert tables.execute(queries.query("watches")).fetchall() == []


def test_a_server_and_its_observer_are_added_together(
    tables: Connection, known: Observers
) -> None:
    """Neither is there where the kind is unknown, and both where a host declared it."""
    address = (wire.HOST, 7_001)
    with pytest.raises(ObserverRefused):
        watchers.add_server(tables, known, 1, address)
    assert tables.execute(queries.query("servers")).fetchall() == []
    database = Database.of(known.settings, role="observers")
    host = Tables(database, hosted.observers.kinds)
    host.join(str(new_id()), name="host", pid=1, capacity=10, ttl=LIMIT)
    watchers.add_server(tables, known, 1, address)
    database.close()
    assert tables.execute(queries.query("servers")).fetchall() == [(1, *address)]
    row = known.status("server-1")
    assert row is not None
    assert row.args == {"server": 1, "host": wire.HOST, "port": 7_001}


LIVES = (
    Life(1, 1, 100, 0.0, 5.0),
    Life(1, 2, 200, 8.5, 12.0),
    Life(1, 3, 300, 12.5, 16.0),
    Life(2, 1, 200, 0.0, 4.0),
    Life(2, 4, 300, 4.25, 16.0),
)
"""Server 1 had the host that was killed, then the one that was drained."""
EVENTS = (Event(KILLED, 100, 5.1), Event(DRAINED, 200, 12.2))
WATCHED = Watched(LIVES, EVENTS)


def test_a_gap_is_of_what_was_done_to_the_host() -> None:
    """Whoever moved before that, moved by itself."""
    assert [longest(WATCHED.gaps(what)) for what in (KILLED, DRAINED, "")] == [
        3.5,
        0.5,
        0.25,
    ]
    assert len(WATCHED.gaps()) == 3
    assert longest(Watched().gaps()) == 0.0
    assert WATCHED.overlaps == 0
    assert Watched((*LIVES, Life(2, 5, 100, 15.9, 16.0))).overlaps == 1


def test_a_server_is_watched_by_a_host_that_is_there() -> None:
    """Since the last event, and not by a host to which it was done."""
    assert watched_since(LIVES, 12.2, [100, 200]) == {1, 2}
    assert watched_since(LIVES, 16.0, []) == set()
    assert watched_since(LIVES, 0.0, [300]) == set()


def seen(watched: Watched) -> Seen:
    """Return an act without fault in its calls."""
    return Seen(splits=[(3, 6.0, 7.5)], switched=1, lasted=16.0, watched=watched)


def test_the_report_shows_the_gaps(capsys: pytest.CaptureFixture[str]) -> None:
    """The longest by what was done; an act that lost an observer fails the demo."""
    assert failures(seen(WATCHED)) == []
    show(Console(width=120), seen(WATCHED))
    said = capsys.readouterr().out
    for words in ("longest gap 3.5 s", "longest gap 0.5 s", "two lives at once: 0"):
        assert words in said
    [failure] = failures(seen(Watched(LIVES, EVENTS, unwatched=1)))
    assert "1 media servers have no observer" in failure
    [failure] = failures(seen(Watched((*LIVES, Life(2, 5, 100, 15.9, 16.0)))))
    assert "1 observers wrote after the next life" in failure


def test_the_picture_marks_lives_gaps_and_events() -> None:
    """A strip for each life, the length of each gap, a line for what was done."""
    drawn = picture.draw(seen(WATCHED))
    ET.fromstring(drawn)  # noqa: S314  # ours
    for words in ("3.5 s", "0.5 s", "observer 3", "host killed", "host drained"):
        assert words in drawn
