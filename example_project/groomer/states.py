"""Reports and states of a peer in a room session: pure, and forward only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Rank(IntEnum):
    """How far a peer is in one room session; a report only ever raises it."""

    FIRST_OFFER = 1
    CONNECTED = 2
    DISCONNECTED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a media server says of a peer in one of its room sessions."""

    server: int
    session: str
    peer: int
    rank: Rank


class BadReport(ValueError):
    """A report that cannot be read: it names the field, its value and what may be."""


def report_of(document: Any, server: int) -> Report:
    """Return the report that a server has sent as JSON.

    Raises:
        BadReport: a field is missing or has a value that is none.
    """
    fields = document if isinstance(document, dict) else {}
    session, peer, rank = (fields.get(key) for key in ("session", "peer", "report"))
    if not isinstance(session, str) or not session:
        message = f"session is {session!r}; allowed is a text that is not empty"
        raise BadReport(message)
    if not isinstance(peer, int) or isinstance(peer, bool):
        message = f"peer is {peer!r}; allowed is a whole number"
        raise BadReport(message)
    if not isinstance(rank, str) or rank not in Rank.__members__:
        message = f"report is {rank!r}; allowed are {', '.join(Rank.__members__)}"
        raise BadReport(message)
    return Report(server=server, session=session, peer=peer, rank=Rank[rank])


@dataclass(frozen=True, slots=True, order=True)
class Progress:
    """What a peer's row says, as far as reports move it: the greater one wins."""

    epoch: int = 0
    rank: int = 0

    def after(self, other: Progress) -> Progress:
        """Return what stands in the row after another report: the join of both."""
        return max(self, other)
