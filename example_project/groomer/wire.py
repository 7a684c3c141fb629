"""JSON lines over TCP: what servers, peers and the groomer say to one another."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

HOST = "127.0.0.1"
TIMEOUT = 5.0
Document = dict[str, Any]
Address = tuple[str, int]


def encode(document: Document) -> bytes:
    """Return the line of a document."""
    return json.dumps(document).encode() + b"\n"


def decode(line: bytes) -> Document:
    """Return the document of a line; an empty one if it is none."""
    try:
        document = json.loads(line)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def ask(address: Address, document: Document, timeout: float = TIMEOUT) -> Document:
    """Send a line and return the answered one.

    Raises:
        OSError: nobody answered within ``timeout`` seconds.
    """
    with socket.create_connection(address, timeout) as line:
        line.settimeout(timeout)
        line.sendall(encode(document))
        with line.makefile("rb") as file:
            answer = file.readline()
    if not answer:
        message = f"{address} closed the connection without an answer"
        raise ConnectionError(message)
    return decode(answer)


async def aask(address: Address, document: Document) -> Document:
    """Do as `ask`, for coroutines; the caller brings its own timeout."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(encode(document))
        answer = await reader.readline()
    finally:
        writer.close()
    if not answer:
        message = f"{address} closed the connection without an answer"
        raise ConnectionError(message)
    return decode(answer)
