"""Reports of rooms that change their media server: seeded, lossy, doubled, shuffled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from example_project.groomer.states import Rank, Report

PEERS = 40
"""Of each room, as in the benchmark of the article."""
LOST, DOUBLED = 0.05, 0.15
SERVERS = 3


def session(room: int, epoch: int) -> str:
    """Return the id of a room session."""
    return f"{room}/{epoch}"


def server(room: int, epoch: int) -> int:
    """Return the media server of a room session."""
    return 1 + (room + epoch) % SERVERS


@dataclass(frozen=True, slots=True)
class Room:
    """What is reported of one room: before its switch, and after it."""

    number: int
    before: tuple[Report, ...]
    after: tuple[Report, ...]


def room(number: int, seed: int = 1) -> Room:
    """Return the reports of a room, the same for whoever is measured."""
    chance = random.Random(f"{seed}/{number}")

    def reports(epoch: int, *ranks: Rank) -> list[Report]:
        said = []
        for peer in range(number * 100, number * 100 + PEERS):
            for rank in ranks:
                copies = (chance.random() >= LOST) + (chance.random() < DOUBLED)
                one = Report(
                    server=server(number, epoch),
                    session=session(number, epoch),
                    peer=peer,
                    rank=rank,
                )
                said += [one] * copies
        return said

    before = reports(1, Rank.FIRST_OFFER, Rank.CONNECTED)
    # The old server wakes up: an offer, and the end, of those who are elsewhere by now.
    late = reports(1, Rank.FIRST_OFFER, Rank.DISCONNECTED)
    after = [*reports(2, Rank.FIRST_OFFER, Rank.CONNECTED), *late]
    chance.shuffle(before)
    chance.shuffle(after)
    return Room(number, tuple(before), tuple(after))


def rooms(first: int) -> Iterator[Room]:
    """Give one room after the other."""
    number = first
    while True:
        yield room(number)
        number += 1
