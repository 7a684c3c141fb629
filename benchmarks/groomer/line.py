"""A line to PostgreSQL that is so many milliseconds long, in a process of its own.

``python -m benchmarks.groomer.line HOST PORT SECONDS`` prints the port on which it
listens. Each piece is held for SECONDS each way.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
from collections import deque

PIECE = 65_536


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float
) -> None:
    loop = asyncio.get_running_loop()
    held: deque[bytes] = deque()

    def hand_over() -> None:
        writer.write(held.popleft())

    while piece := await reader.read(PIECE):
        held.append(piece)
        loop.call_later(delay, hand_over)
    loop.call_later(delay, writer.close)


async def _serve(host: str, port: int, delay: float) -> None:
    async def accept(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        there, back = await asyncio.open_connection(host, port)
        ways = _carry(reader, back, delay), _carry(there, writer, delay)
        await asyncio.gather(*ways, return_exceptions=True)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    """Carry until this process is ended."""
    host, port, delay = sys.argv[1:]
    # select() waits for microseconds; epoll rounds up to a whole millisecond, which
    # would make a line of 1 ms one of 3.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    loop.run_until_complete(_serve(host, int(port), float(delay)))


if __name__ == "__main__":
    main()
