"""Simulated peers: ``python -m example_project.groomer.peers PORT …``.

They know themselves where they are, by the connections that they hold: what is counted
as a split is counted by them, and not worked out from the groomer's tables. Invitations
come through a gateway; each that arrives is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import Counter
from contextlib import suppress

from celery_pecker.kernel.clock import SYSTEM
from example_project.groomer import wire

READY = "peers: ready"
ENTERS_WITHIN = 1.5
"""Seconds in which the first peers come; the later ones over the time given."""
MOVES = (0.05, 0.4)
"""Seconds that a peer takes to follow an invitation."""
TRIES = 5


class Peer:
    """Somebody in a meeting."""

    def __init__(self, number: int, room: int, peers: Peers) -> None:
        self.number = number
        self.room = room
        self.session = ""
        self._peers = peers
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    async def enter(self, after: float) -> None:
        """Want in, after so many seconds."""
        await asyncio.sleep(after)
        place = await wire.aask(self._peers.groomer, {"join": [self.room, self.number]})
        self.move(place)

    def move(self, place: wire.Document, after: float = 0.0) -> None:
        """Go to a room session; a way that was begun before is given up."""
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.create_task(self._move(place, after))

    async def _move(self, place: wire.Document, after: float) -> None:
        await asyncio.sleep(after)
        for _ in range(TRIES):
            asked: wire.Document = {"offer": [self.room, place["session"], self.number]}
            place = await wire.aask(self._peers.groomer, asked)
            if place["passes"]:
                break
        address = self._peers.servers[place["server"]]
        reader, writer = await asyncio.open_connection(*address)
        try:
            hello = {"session": place["session"], "peer": self.number}
            writer.write(wire.encode(hello))
            await reader.readline()  # a frozen server does not answer
        except BaseException:
            writer.close()
            raise
        before, self._writer = self._writer, writer
        self.session = place["session"]
        self._peers.moved(self)
        if before is not None:
            before.close()


class Peers:
    """All peers, the gateway to them, and what became of their meetings."""

    def __init__(
        self, groomer: wire.Address, servers: dict[int, wire.Address], seed: int
    ) -> None:
        self.groomer = groomer
        self.servers = servers
        self._chance = random.Random(seed)
        self._began = SYSTEM.monotonic()
        self._peers: dict[int, Peer] = {}
        self._rooms: dict[int, list[Peer]] = {}
        self._invitations: Counter[tuple[int, int]] = Counter()
        self._pulled = 0
        self._since: dict[int, float] = {}
        self._splits: list[tuple[int, float, float]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, port: int, rooms: int, each: int, later: float) -> None:
        """Let the peers come, and serve until this process is ended."""
        server = await asyncio.start_server(
            self._accept, wire.HOST, port, backlog=1_024
        )
        for room in range(1, rooms + 1):
            for nth in range(each):
                self._enter(room, nth, self._chance.uniform(0.0, ENTERS_WITHIN))
            # One more comes at some time, also into a meeting that stands still.
            self._enter(room, each, self._chance.uniform(ENTERS_WITHIN, later))
        print(READY, flush=True)
        async with server:
            await server.serve_forever()

    def moved(self, peer: Peer) -> None:
        """Keep from when until when the peers of a room are in two sessions."""
        now = SYSTEM.monotonic() - self._began
        sessions = {one.session for one in self._rooms[peer.room] if one.session}
        if len(sessions) > 1:
            self._since.setdefault(peer.room, now)
        elif peer.room in self._since:
            self._splits.append((peer.room, self._since.pop(peer.room), now))

    def _enter(self, room: int, nth: int, after: float) -> None:
        peer = Peer(room * 100 + nth, room, self)
        self._peers[peer.number] = peer
        self._rooms.setdefault(room, []).append(peer)
        task = asyncio.create_task(peer.enter(after))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError):
            asked = wire.decode(await reader.readline())
            writer.write(wire.encode(self._answer(asked)))
        writer.close()

    def _answer(self, asked: wire.Document) -> wire.Document:
        match asked:
            case {"invite": peer, "epoch": epoch}:
                self._invitations[peer, epoch] += 1
                if self._invitations[peer, epoch] == 1:
                    self._peers[peer].move(asked, self._chance.uniform(*MOVES))
            case {"pull": peer, "session": session}:
                if self._peers[peer].session != session:
                    self._pulled += 1
                    self._peers[peer].move(asked)
            case {"look": _}:
                return self._look()
        return {"ok": True}

    def _look(self) -> wire.Document:
        return {
            "at": SYSTEM.monotonic() - self._began,
            "peers": len(self._peers),
            "in": sum(bool(one.session) for one in self._peers.values()),
            "since": self._since,
            "splits": self._splits,
            "invited": len(self._invitations),
            "twice": sum(many > 1 for many in self._invitations.values()),
            "pulled": self._pulled,
        }


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(prog="python -m example_project.groomer.peers")
    parser.add_argument("port", type=int)
    parser.add_argument("groomer", type=int, help="port of the groomer's service")
    parser.add_argument("servers", type=int, nargs="+", help="ports of media servers")
    parser.add_argument("--rooms", type=int, default=200)
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--later", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    servers = {
        number: (wire.HOST, port) for number, port in enumerate(options.servers, 1)
    }
    peers = Peers((wire.HOST, options.groomer), servers, options.seed)
    asyncio.run(peers.serve(options.port, options.rooms, options.each, options.later))


if __name__ == "__main__":
    main()
