"""Sockets for the parts: a line asks, a line answers; faults are on order.

Control lines, each answered by one line: ``hold CALLS SECONDS``, ``fault PART CALL
KIND``, ``heal PART CALL``, ``dropped``, ``silence``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from celery_pecker.kernel.clock import SYSTEM, Clock
from example_project.parts.backend import Backend
from example_project.parts.fault import Fault, Latency

HOST = "127.0.0.1"
WATCH = 0.25
"""Seconds between two looks of the backend at its calls."""

Answer = Callable[[list[str]], Awaitable[str | None]]


class Parts:
    """All remote parts of so many calls, listening."""

    def __init__(self, calls: int, seed: int, clock: Clock = SYSTEM) -> None:
        self.backend = Backend()
        self._calls = calls
        self._latency = Latency(seed)
        self._clock = clock
        self._faults: dict[tuple[str, int], Fault] = {}
        self._servers: list[asyncio.Server] = []
        self._agents: dict[int, asyncio.Server] = {}
        self._ports: dict[int, int] = {}
        self._lines: set[asyncio.Task[None]] = set()

    async def listen(self) -> dict[str, object]:
        """Every part listens; where, for whoever wants to ask."""
        for call in range(1, self._calls + 1):
            await self._listen_agent(call)
        names = {
            "backend": self._part,
            "equipment": self._part,
            "control": self._order,
        }
        ports: dict[str, object] = {"host": HOST, "agents": list(self._ports.values())}
        for name, answer in names.items():
            server = await self._open(answer)
            self._servers.append(server)
            ports[name] = server.sockets[0].getsockname()[1]
        return ports

    async def watch(self) -> None:
        """The backend hangs up on silent calls, until cancelled."""
        while True:
            self.backend.look(self._clock.monotonic())
            await asyncio.sleep(WATCH)

    async def close(self) -> None:
        """Nobody listens any more and no line is held."""
        for server in [*self._servers, *self._agents.values()]:
            server.close()
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    async def _open(self, answer: Answer, port: int = 0) -> asyncio.Server:
        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            line = asyncio.current_task()
            if line is not None:
                self._lines.add(line)
                line.add_done_callback(self._lines.discard)
            with suppress(ConnectionError, asyncio.CancelledError):
                asked = (await reader.readline()).decode(errors="replace").split()
                said = await answer(asked) if asked else None
                if said is not None:
                    writer.write(f"{said}\n".encode())
                    await writer.drain()
            writer.close()

        return await asyncio.start_server(serve, HOST, port, backlog=256)

    async def _listen_agent(self, call: int) -> None:
        self._agents[call] = await self._open(self._part, self._ports.get(call, 0))
        self._ports[call] = self._agents[call].sockets[0].getsockname()[1]

    async def _part(self, asked: list[str]) -> str | None:
        """Answer as the part that is asked, with whatever is wrong with it."""
        part, call = asked[0], int(asked[1])
        fault = self._faults.get((part, call))
        up = part != "backend" or self.backend.asked(call, self._clock.monotonic())
        if fault is Fault.REFUSED:
            return None
        if fault is Fault.HANGS:
            await asyncio.sleep(3600)
        await asyncio.sleep(self._latency.draw(fault))
        if fault is Fault.WRONG:
            return f"ok {part} {call + 1}"
        return f"{'ok' if up else 'gone'} {part} {call}"

    async def _order(self, asked: list[str]) -> str:
        match asked:
            case ["hold", calls, bound]:
                self.backend.hold(int(calls), float(bound), self._clock.monotonic())
            case ["fault", part, call, kind]:
                await self._break(part, int(call), Fault(kind))
            case ["heal", part, call]:
                await self._heal(part, int(call))
            case ["dropped"]:
                return " ".join(["ok", *map(str, sorted(self.backend.dropped))])
            case ["silence"]:
                return f"ok {self.backend.silence(self._clock.monotonic()):.3f}"
            case _:
                return "unknown"
        return "ok"

    async def _break(self, part: str, call: int, fault: Fault) -> None:
        self._faults[part, call] = fault
        if part == "agent" and fault is Fault.REFUSED:
            self._agents[call].close()

    async def _heal(self, part: str, call: int) -> None:
        fault = self._faults.pop((part, call), None)
        if part == "agent" and fault is Fault.REFUSED:
            await self._listen_agent(call)
