"""A simulated media server: ``python -m example_project.groomer.media NUMBER PORT``.

Peers connect and stay. What it reports to the groomer is lost, doubled, late and out of
order, and now and then a lie: that a peer is in a session which is not its own. When it
has been frozen it notices that by its own clock, takes all who are gone for lost, and
sends offers that would pull them back.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from contextlib import suppress

from celery_pecker.kernel.clock import SYSTEM
from example_project.groomer import wire
from example_project.groomer.states import Rank

READY = "media server: ready"
LOST, DOUBLED, LIES = 0.05, 0.15, 0.02
LATEST = 0.3
"""Seconds by which a report is late at most, so that they overtake one another."""
TURN = 0.25
"""Seconds between two looks at its own clock."""
FROZEN = 1.5
"""Seconds after which it knows that it stood still."""


class Media:
    """Holds the connections of peers, and reports them."""

    def __init__(self, number: int, groomer: wire.Address) -> None:
        self._number = number
        self._groomer = groomer
        self._chance = random.Random(number)
        self._members: dict[str, set[int]] = {}
        self._outgoing: asyncio.Queue[wire.Document] = asyncio.Queue()
        self._late: set[asyncio.TimerHandle] = set()

    async def serve(self, port: int) -> None:
        """Serve until this process is ended."""
        server = await asyncio.start_server(
            self._accept, wire.HOST, port, backlog=1_024
        )
        print(READY, flush=True)
        async with server:
            await asyncio.gather(self._report(), self._watch(), server.serve_forever())

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError):
            asked = wire.decode(await reader.readline())
            writer.write(wire.encode({"ok": True}))
            if "session" in asked:
                await self._hold(reader, str(asked["session"]), int(asked["peer"]))
        writer.close()

    async def _hold(
        self, reader: asyncio.StreamReader, session: str, peer: int
    ) -> None:
        """Keep a peer until it hangs up."""
        members = self._members.setdefault(session, set())
        members.add(peer)
        self._tell(session, peer, Rank.FIRST_OFFER)
        self._tell(session, peer, Rank.CONNECTED)
        with suppress(ConnectionError):
            await reader.read()
        members.discard(peer)
        self._tell(session, peer, Rank.DISCONNECTED)

    def _tell(self, session: str, peer: int, rank: Rank) -> None:
        """Report, as reliably as networks and servers are."""
        copies = (self._chance.random() >= LOST) + (self._chance.random() < DOUBLED)
        document = {"session": session, "peer": peer, "report": rank.name}
        for _ in range(copies):
            self._send_late(document)
        if self._chance.random() < LIES:
            room, _, epoch = session.partition("/")
            self._send_late({**document, "session": f"{room}/{int(epoch) + 1}"})

    def _send_late(self, document: wire.Document) -> None:
        loop = asyncio.get_running_loop()
        late = self._chance.uniform(0.0, LATEST)
        loop.call_later(late, self._outgoing.put_nowait, document)

    async def _report(self) -> None:
        """Send what is to be reported over one connection."""
        _, writer = await asyncio.open_connection(*self._groomer)
        writer.write(wire.encode({"server": self._number}))
        while True:
            writer.write(wire.encode(await self._outgoing.get()))
            await writer.drain()

    async def _watch(self) -> None:
        """Look at the clock; after a standstill pull back whoever was there."""
        seen = SYSTEM.monotonic()
        while True:
            await asyncio.sleep(TURN)
            before, seen = seen, SYSTEM.monotonic()
            if seen - before > FROZEN:
                for session, members in self._members.items():
                    for peer in members:
                        self._outgoing.put_nowait({"pull": peer, "session": session})


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(prog="python -m example_project.groomer.media")
    parser.add_argument("number", type=int)
    parser.add_argument("port", type=int)
    parser.add_argument("groomer", type=int, help="port of the groomer's service")
    options = parser.parse_args()
    media = Media(options.number, (wire.HOST, options.groomer))
    asyncio.run(media.serve(options.port))


if __name__ == "__main__":
    main()
