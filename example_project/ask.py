"""Ask a remote part how a call is: one line there, one line back, in bounded time."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from enum import StrEnum

from celery_pecker.kernel.clock import SYSTEM, Clock

LONGEST_LINE = 200


class Answer(StrEnum):
    """How a part answered."""

    OK = "ok"
    SLOW = "slow"
    """Right, but late."""
    REFUSED = "refused"
    """Nobody listens there, or the line was cut."""
    TIMEOUT = "timeout"
    WRONG = "wrong"
    """An answer to some other question."""
    GONE = "gone"
    """The backend has hung the call up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an answer may take."""

    slow: float = 0.4
    timeout: float = 1.0


def ask(
    address: tuple[str, int],
    part: str,
    call: int,
    *,
    patience: Patience = Patience(),
    clock: Clock = SYSTEM,
) -> Answer:
    """Return how the part answered; takes no longer than the patience."""
    began = clock.monotonic()
    ends = began + patience.timeout
    try:
        with socket.create_connection(address, timeout=patience.timeout) as line:
            line.sendall(f"{part} {call}\n".encode())
            said = _read_line(line, ends, clock)
    except TimeoutError:
        return Answer.TIMEOUT
    except OSError:
        return Answer.REFUSED
    if said == f"gone {part} {call}":
        return Answer.GONE
    if said != f"ok {part} {call}":
        return Answer.WRONG if said else Answer.REFUSED
    return Answer.SLOW if clock.monotonic() - began > patience.slow else Answer.OK


def _read_line(line: socket.socket, ends: float, clock: Clock) -> str:
    """Return what came before the line's end, or before the other side hung up."""
    said = b""
    while not said.endswith(b"\n") and len(said) < LONGEST_LINE:
        left = ends - clock.monotonic()
        if left <= 0:
            raise TimeoutError
        line.settimeout(left)
        piece = line.recv(LONGEST_LINE)
        if not piece:
            break
        said += piece
    return said.decode(errors="replace").strip()
