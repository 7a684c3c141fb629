"""Very many reports, switches and sweeps at once, against an account of them.

Reports go through `AsyncBatches` over several connections, so that they really race;
rooms switch while their reports come in; servers lie. Afterwards each row must be what
the greatest report of its peer says, and whoever had to be invited is, once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from benchmarks.groomer import stream
from benchmarks.groomer.stream import Room, server, session
from benchmarks.results import Sample
from celery_pecker.batches import AsyncBatches
from example_project.groomer import queries
from example_project.groomer.states import Progress, Report
from example_project.store import statements

ROOMS_AT_ONCE = 60
CONNECTIONS = 4
LIES = 0.01
SWEEP_EACH = 1.0
WAITING = 1_000_000


@dataclass(slots=True)
class Account:
    """What was reported, and who was invited."""

    greatest: dict[int, Progress] = field(default_factory=dict)
    invited: Counter[tuple[int, int]] = field(default_factory=Counter)
    reports: int = 0
    lies: int = 0
    swept: int = 0

    def reported(self, one: Report) -> None:
        """Keep the greatest that is believed of each peer."""
        epoch = int(one.session.partition("/")[2])
        said = Progress(epoch, one.rank)
        self.greatest[one.peer] = self.greatest.get(one.peer, Progress()).after(said)


class Flood:
    """Plays rooms until so many reports have been applied."""

    def __init__(self, dsn: str, reports: int, tell: Callable[[], None]) -> None:
        self.account = Account()
        self._dsn = dsn
        self._reports = reports
        self._tell = tell
        self._chance = random.Random(1)
        self._idle: asyncio.Queue[psycopg.AsyncConnection[Any]] = asyncio.Queue()
        self._over = asyncio.Event()

    async def play(self) -> float:
        """Return the seconds that it took."""
        for _ in range(2 * CONNECTIONS):
            self._idle.put_nowait(
                await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
            )
        sweeping = asyncio.create_task(self._sweep())
        began = time.perf_counter()
        async with AsyncBatches(
            self._apply, most=100, wait=0.005, waiting=WAITING, calls=CONNECTIONS
        ) as self._batches:
            numbers = iter(range(1, 1_000_000))
            await asyncio.gather(*(self._line(numbers) for _ in range(ROOMS_AT_ONCE)))
        took = time.perf_counter() - began
        self._over.set()
        await sweeping
        await self._sweep_once()
        while not self._idle.empty():
            await self._idle.get_nowait().close()
        return took

    async def _line(self, numbers: Any) -> None:
        while self.account.reports < self._reports:
            await self._room(stream.room(next(numbers)))
            self._tell()

    async def _room(self, room: Room) -> None:
        await self._switch(room, 1)
        half = len(room.before) // 2
        await self._send(room.before[:half])
        # The switch races the rest of what the old server says.
        await asyncio.gather(self._switch(room, 2), self._send(room.before[half:]))
        await self._send(room.after)

    async def _send(self, reports: tuple[Report, ...]) -> None:
        said = list(reports)
        for one in reports:
            self.account.reported(one)
            if self._chance.random() < LIES:
                other = 1 + one.server % stream.SERVERS
                lie = Report(
                    server=other, session=one.session, peer=one.peer, rank=one.rank
                )
                said.append(lie)
                self.account.lies += 1
        self.account.reports += len(said)
        await asyncio.gather(*(self._batches.do(one) for one in said))

    async def _apply(self, reports: list[Report]) -> list[None]:
        await self._execute(*queries.apply_statement(reports))
        return [None] * len(reports)

    async def _switch(self, room: Room, epoch: int) -> None:
        number = room.number
        values = {
            "room": number,
            "epoch": epoch,
            "session": session(number, epoch),
            "server": server(number, epoch),
        }
        [(_, peers)] = await self._execute(queries.query("switch"), values)
        self.account.invited.update((peer, epoch) for peer in peers)

    async def _sweep(self) -> None:
        while not self._over.is_set():
            await self._sweep_once()
            try:
                await asyncio.wait_for(self._over.wait(), SWEEP_EACH)
            except TimeoutError:
                continue

    async def _sweep_once(self) -> None:
        values = {"limit": 100_000, "within": 3_600.0}
        rows = await self._execute(queries.query("sweep"), values)
        self.account.invited.update((peer, epoch) for peer, _, epoch in rows)
        self.account.swept += len(rows)

    async def _execute(self, statement: bytes, values: dict[str, Any]) -> list[Any]:
        connection = await self._idle.get()
        try:
            cursor = await connection.execute(statement, values)
            return await cursor.fetchall()
        finally:
            self._idle.put_nowait(connection)


def flood(dsn: str, reports: int, tell: Callable[[], None]) -> Sample:
    """Return what was left behind, lost or doubled."""
    played = Flood(dsn, reports, tell)
    took = asyncio.run(played.play())
    account = played.account
    with psycopg.connect(dsn, autocommit=True) as connection:
        rows = {
            peer: Progress(epoch, rank)
            for peer, epoch, rank in connection.execute(
                "select peer_id, epoch, rank from groomer_peers"
            )
        }
        counted = statements()["groomer_counted"].encode()
        [(_, orphans, invitations, swept, _)] = connection.execute(counted).fetchall()
    return {
        "reports": account.reports,
        "lies": account.lies,
        "peers": len(rows),
        "seconds": round(took, 1),
        "per_second": round(account.reports / took),
        "lost": sum(rows.get(peer) != said for peer, said in account.greatest.items()),
        "invented": len(rows.keys() - account.greatest.keys()),
        "orphans": orphans,
        "invitations": invitations,
        "swept": swept,
        "twice": sum(many > 1 for many in account.invited.values()),
        "unrecorded": invitations - account.invited.total(),
    }
