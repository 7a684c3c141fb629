"""The groomer's service: ``python -m example_project.groomer.service PORT``.

It stands in the path of offers. Peers and media servers that talk to it at the same
moment share a statement: joins, offers and reports are each gathered in batches.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import psycopg

from celery_pecker.batches import AsyncBatches
from example_project.groomer import queries, wire
from example_project.groomer.app import SERVICE_DSN
from example_project.groomer.queries import Current, Verdict
from example_project.groomer.states import BadReport, Report, report_of

READY = "groomer: ready"
WAIT = 0.01
"""Seconds for which a batch is gathered."""

Row = Sequence[Any]
Wish = tuple[int, int]
Offer = tuple[int, str, int]


class Service:
    """Answers peers and media servers."""

    def __init__(self, gateway: wire.Address) -> None:
        self._gateway = gateway
        self._counts = {"refused": 0, "unbelieved": 0, "unreadable": 0, "reports": 0}
        self._said: set[asyncio.Task[None]] = set()

    async def serve(self, port: int) -> None:
        """Serve until this process is ended."""
        async with AsyncExitStack() as kept:
            self._joins = await self._batches(kept, self._join)
            self._offers = await self._batches(kept, self._offer)
            self._reports = await self._batches(kept, self._apply)
            server = await asyncio.start_server(
                self._accept, wire.HOST, port, backlog=1_024
            )
            print(READY, flush=True)
            async with server:
                await server.serve_forever()

    async def _batches(
        self,
        kept: AsyncExitStack,
        call: Callable[[psycopg.AsyncConnection[Any], list[Any]], Awaitable[list[Any]]],
    ) -> AsyncBatches[Any, Any]:
        """Return batches that have a connection of their own."""
        connection = await psycopg.AsyncConnection.connect(SERVICE_DSN, autocommit=True)
        kept.push_async_callback(connection.close)

        async def called(items: list[Any]) -> list[Any]:
            return await call(connection, items)

        batches: AsyncBatches[Any, Any] = AsyncBatches(
            called, wait=WAIT, one_by_one=True
        )
        return await kept.enter_async_context(batches)

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError):
            asked = wire.decode(await reader.readline())
            if "server" in asked:
                await self._listen(reader, int(asked["server"]))
            else:
                writer.write(wire.encode(await self._answer(asked)))
        writer.close()

    async def _answer(self, asked: wire.Document) -> wire.Document:
        match asked:
            case {"join": [room, peer]}:
                return _place(await self._joins.do((room, peer)))
            case {"offer": [room, session, peer]}:
                verdict: Verdict = await self._offers.do((room, session, peer))
                return {"passes": verdict.passes, **_place(verdict.current)}
            case {"counts": _}:
                return self._counts
        return {"error": "allowed are join, offer and counts"}

    async def _listen(self, reader: asyncio.StreamReader, server: int) -> None:
        """Take what a media server reports, without making it wait."""
        while line := await reader.readline():
            task = asyncio.create_task(self._hear(wire.decode(line), server))
            self._said.add(task)
            task.add_done_callback(self._said.discard)

    async def _hear(self, said: wire.Document, server: int) -> None:
        if "pull" in said:
            await self._pull(str(said.get("session")), int(said["pull"]))
            return
        try:
            report = report_of(said, server)
        except BadReport:
            self._counts["unreadable"] += 1
            return
        self._counts["reports"] += 1
        await self._reports.do(report)

    async def _pull(self, session: str, peer: int) -> None:
        """Let a membership offer through to its peer, if its session is current."""
        room = int(session.partition("/")[0])
        verdict: Verdict = await self._offers.do((room, session, peer))
        if not verdict.passes:
            self._counts["refused"] += 1
        elif verdict.current is not None:
            await wire.aask(
                self._gateway, {"pull": peer, "room": room, **_place(verdict.current)}
            )

    async def _join(
        self, connection: psycopg.AsyncConnection[Any], wishes: list[Wish]
    ) -> list[Current | None]:
        columns = {"room": [one[0] for one in wishes], "peer": [p for _, p in wishes]}
        cursor = await connection.execute(queries.query("join"), columns)
        places = {peer: Current(*rest) for peer, *rest in await cursor.fetchall()}
        return [places.get(peer) for _, peer in wishes]

    async def _offer(
        self, connection: psycopg.AsyncConnection[Any], offers: list[Offer]
    ) -> list[Verdict]:
        columns = queries.offer_columns(offers)
        cursor = await connection.execute(queries.query("offer"), columns)
        return [queries.verdict_of(row) for row in await cursor.fetchall()]

    async def _apply(
        self, connection: psycopg.AsyncConnection[Any], reports: list[Report]
    ) -> list[None]:
        cursor = await connection.execute(*queries.apply_statement(reports))
        [(_, believed)] = await cursor.fetchall()
        self._counts["unbelieved"] += len(reports) - believed
        return [None] * len(reports)


def _place(current: Current | None) -> wire.Document:
    return {} if current is None else current._asdict()


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(prog="python -m example_project.groomer.service")
    parser.add_argument("port", type=int)
    parser.add_argument("gateway", type=int, help="port of the peers' gateway")
    options = parser.parse_args()
    asyncio.run(Service((wire.HOST, options.gateway)).serve(options.port))


if __name__ == "__main__":
    main()
