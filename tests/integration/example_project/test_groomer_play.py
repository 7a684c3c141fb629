"""The groomer's service over real sockets, its tasks, its report and its picture.

The act itself is played by `make demo`, which `make check` runs.
"""

from __future__ import annotations

import asyncio
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import psycopg
import pytest
from rich.console import Console

from celery_pecker.testing import eventually, free_port
from example_project.demo.__main__ import options
from example_project.groomer import picture, queries, service, tasks, wire
from example_project.groomer.media import READY as MEDIA_READY
from example_project.groomer.play import Seen
from example_project.groomer.queries import Current
from example_project.groomer.states import Rank, Report
from example_project.groomer.story import failures, show
from example_project.processes import ProcessContainer
from tests.integration.example_project.conftest import ROOT

LIMIT = 60.0
RECORDED = "select count(*), count(distinct task_id) from pecker_outbox"
Connection = psycopg.Connection[Any]


class Line(socketserver.StreamRequestHandler):
    """Answers one line, and keeps what it was sent."""

    received: list[wire.Document]

    def handle(self) -> None:
        """Keep the line."""
        self.received.append(wire.decode(self.rfile.readline()))
        self.wfile.write(wire.encode({"ok": True}))


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[wire.Document]]:
    """Give what a gateway to the peers receives."""
    received: list[wire.Document] = []
    answers = type("Answers", (Line,), {"received": received})
    with socketserver.ThreadingTCPServer((wire.HOST, 0), answers) as server:
        monkeypatch.setattr(tasks, "GATEWAY", server.server_address[1])
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield received
        server.shutdown()


@pytest.fixture
def tables(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """Give the tables, which the tasks use too: two peers in room 7 on server 1."""
    monkeypatch.setattr(tasks, "SERVICE_DSN", dsn)
    monkeypatch.setattr(service, "SERVICE_DSN", dsn)
    monkeypatch.setattr(tasks, "_of_thread", threading.local())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(queries.query("schema"))
        queries.switch(connection, 7, Current(1, "7/1", 1))
        ranks = ((70, Rank.CONNECTED), (71, Rank.FIRST_OFFER))
        queries.apply(
            connection,
            [Report(server=1, session="7/1", peer=p, rank=rank) for p, rank in ranks],
        )
        yield connection
    tasks.disconnect()


def add_server(connection: Connection, number: int, port: int) -> None:
    """Enter a media server that has not answered for a minute."""
    values = {"server": number, "host": wire.HOST, "port": port}
    connection.execute(queries.query("add_server"), values)
    connection.execute(
        "update groomer_servers set answered_at = now() - interval '1 minute'"
    )


@pytest.fixture
def media() -> Iterator[int]:
    """Give the port of a media server; there is no groomer that it could reach."""
    port = free_port()
    with socketserver.ThreadingTCPServer((wire.HOST, 0), Line) as groomer:
        Line.received = []
        threading.Thread(target=groomer.serve_forever, daemon=True).start()
        process = ProcessContainer(
            [
                *(sys.executable, "-m", "example_project.groomer.media", "2"),
                *(str(port), str(groomer.server_address[1])),
            ],
            name="media",
            cwd=ROOT,
        )
        process.start()
        try:
            eventually(lambda: MEDIA_READY in process.life_log(), LIMIT, "it is ready")
            yield port
        finally:
            process.remove()
            groomer.shutdown()


def test_the_rooms_of_a_dead_server_get_another_and_their_peers_an_invitation(
    tables: Connection, media: int, gateway: list[wire.Document]
) -> None:
    """In one transaction; the invitation is sent once, however often its task runs."""
    add_server(tables, 1, free_port())
    add_server(tables, 2, media)
    assert tasks.watch() == 1
    assert queries.current(tables, 7) == Current(2, "7/2", 2)
    assert tables.execute(RECORDED).fetchone() == (2, 2)
    assert tasks.watch() == 0
    for _ in range(2):
        assert tasks.invite.apply((70, 2)).successful()
    place = {"invite": 70, "epoch": 2, "session": "7/2", "server": 2}
    assert gateway == [place]


def test_no_room_is_switched_while_no_server_answers(tables: Connection) -> None:
    """The fault may be the groomer's own."""
    add_server(tables, 1, free_port())
    assert tasks.watch() == 0
    assert queries.current(tables, 7) == Current(1, "7/1", 1)


def test_an_invitation_that_was_overtaken_is_not_sent(
    tables: Connection, gateway: list[wire.Document]
) -> None:
    """The peer would come to a session that is no longer the current one."""
    queries.switch(tables, 7, Current(2, "7/2", 2))
    queries.switch(tables, 7, Current(3, "7/3", 1))
    for epoch in (2, 3):
        assert tasks.invite.apply((70, epoch)).successful()
    assert [one["session"] for one in gateway] == ["7/3"]


def test_the_sweep_records_the_invitations_of_those_left_behind(
    tables: Connection,
) -> None:
    """Late first reports of the old session, found a second later."""
    queries.switch(tables, 7, Current(2, "7/2", 2))
    late = Report(server=1, session="7/1", peer=72, rank=Rank.FIRST_OFFER)
    queries.apply(tables, [late])
    assert tasks.sweep() == 1
    assert tasks.sweep() == 0
    assert tables.execute(RECORDED).fetchone() == (1, 1)


def test_the_service_answers_peers_and_media_servers(tables: Connection) -> None:
    """Over sockets: joins, offers, reports, lies, and what cannot be read."""
    queries.switch(tables, 7, Current(2, "7/2", 2))
    current = {"epoch": 2, "session": "7/2", "server": 2}
    port = free_port()
    address = (wire.HOST, port)

    async def talk() -> dict[str, Any]:
        groomer = service.Service((wire.HOST, 1))
        serving = asyncio.create_task(groomer.serve(port))
        joined: wire.Document = {}
        while not joined:
            await asyncio.wait([serving], timeout=0.05)
            with suppress(ConnectionRefusedError):
                joined = await wire.aask(address, {"join": [7, 73]})
        assert joined == current
        answers = await asyncio.gather(
            *(wire.aask(address, {"offer": [7, f"7/{n}", 73]}) for n in (1, 2))
        )
        assert answers == [{"passes": passes, **current} for passes in (False, True)]
        assert "allowed" in (await wire.aask(address, {"tea": 1}))["error"]
        _, writer = await asyncio.open_connection(*address)
        said = {"session": "7/2", "peer": 73, "report": "CONNECTED"}
        lie, pull = {**said, "session": "7/1"}, {"pull": 70, "session": "7/1"}
        for one in ({"server": 2}, said, lie, {"peer": "?"}, pull):
            writer.write(wire.encode(one))
        await writer.drain()
        wanted = {"refused": 1, "unbelieved": 1, "unreadable": 1, "reports": 2}
        while (counts := await wire.aask(address, {"counts": 1})) != wanted:
            await asyncio.wait([serving], timeout=0.05)
        writer.close()
        serving.cancel()
        await asyncio.wait([serving])
        return counts

    assert asyncio.run(asyncio.wait_for(talk(), LIMIT))
    state = "select state from groomer_states where peer_id = 73"
    assert tables.execute(state).fetchone() == ("CONNECTED",)


def seen() -> Seen:
    """Return an act without fault."""
    return Seen(
        peers=800,
        frozen=(4.0, 12.0),
        lasted=16.0,
        splits=[(call, 6.0, 7.5) for call in range(3, 201, 3)],
        switched=66,
        invited=264,
        swept=3,
        refused=260,
        reports=3_000,
        unbelieved=60,
    )


def test_the_report_shows_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    """The splits and their length, the invitations, the offers that were refused."""
    assert failures(seen()) == []
    show(Console(width=120), seen())
    said = capsys.readouterr().out
    for words in ("66; p50 1.5 s, p99 1.5 s of 5 s", "264", "twice: 0", "260 offers"):
        assert words in said
    show(Console(width=120), replace(seen(), splits=[]))
    assert "none" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"switched": 0}, "no call was moved"),
        ({"splits": [(3, 1.0, 17.0)]}, "lasted 16.0 s"),
        ({"still_split": 2}, "2 calls are split"),
        ({"out": 1}, "1 peers are in no session"),
        ({"orphans": 1}, "1 peers are not invited"),
        ({"unsent": 4}, "4 invitations"),
        ({"twice": 1}, "invited twice"),
        ({"pulled": 5}, "pulled back"),
    ],
)
def test_the_report_names_what_went_wrong(wrong: dict[str, Any], words: str) -> None:
    """Each of them fails the demo."""
    [failure] = failures(replace(seen(), **wrong))
    assert words in " ".join(failure.split())


def test_the_picture_has_a_red_bar_for_each_split() -> None:
    """And a line for each call; it is drawn of an act without any, too."""
    drawn = picture.draw(seen())
    ET.fromstring(drawn)  # noqa: S314  # ours
    assert drawn.count('class="f-bad"') == len(seen().splits)
    assert "server 1 frozen" in drawn
    ET.fromstring(picture.draw(Seen()))  # noqa: S314
    assert options(["--act", "groomer"]).act == "groomer"
