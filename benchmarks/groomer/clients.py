"""Client processes that apply the same reports, in turns, over many connections.

One process would measure Python's lock and not the room's: its threads run one at a
time. All processes take from one feed, room by room, as application servers do.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from benchmarks.groomer.stream import Room, room
from benchmarks.groomer.ways import WAYS, Way
from example_project.groomer.states import Report

PROCESSES = 4
FIRST_ROOM = 1_000
READY_WITHIN = 60.0
"""Seconds until all connections are open and have applied their first reports."""

_spawn = multiprocessing.get_context("spawn")


class _Feed:
    """Hands out the reports of one room after the other, to all processes.

    Args:
        place: The room and how many of its reports were taken, shared by all.
    """

    def __init__(self, way: Way, near: str, place: Any) -> None:
        self._way = way
        self._place = place
        self._near = psycopg.connect(near, autocommit=True)
        self._room: Room | None = None
        self._reports: tuple[Report, ...] = ()

    def take(self) -> list[Report]:
        """Return the reports of the next call; make the room that they begin."""
        taken: list[Report] = []
        with self._place.get_lock():
            while len(taken) < self._way.batch:
                number, offset = self._place
                reports = self._of(number)
                if offset == 0:
                    self._way.prepare(self._near, room(number))
                more = reports[offset : offset + self._way.batch - len(taken)]
                taken += more
                ended = offset + len(more) == len(reports)
                self._place[:] = (
                    (number + 1, 0) if ended else (number, offset + len(more))
                )
        return taken

    def _of(self, number: int) -> tuple[Report, ...]:
        if self._room is None or self._room.number != number:
            self._room = room(number)
            self._reports = self._room.before + self._room.after
        return self._reports


def _client(
    name: str, near: str, far: str, connections: int, shared: dict[str, Any]
) -> None:
    way = WAYS[name]()
    feed = _Feed(way, near, shared["place"])
    over = shared["over"]
    applied: list[int] = []
    errors: list[str] = []

    def work() -> None:
        done = 0
        with psycopg.connect(far, autocommit=True, prepare_threshold=1) as connection:
            way.apply(connection, feed.take())
            shared["ready"].wait(READY_WITHIN)
            while not over.value:
                reports = feed.take()
                try:
                    way.apply(connection, reports)
                except psycopg.Error as error:
                    errors.append(str(error))
                else:
                    done += 0 if over.value else len(reports)
        applied.append(done)

    threads = [threading.Thread(target=work) for _ in range(connections)]
    for thread in threads:
        thread.start()
    shared["ready"].wait(READY_WITHIN)
    began = time.process_time()
    for thread in threads:
        thread.join()
    spent = time.process_time() - began
    shared["counts"].put((sum(applied), len(errors), spent))


def pull(
    near: str, far: str, name: str, seconds: float, tell: Callable[[], None]
) -> dict[str, Any]:
    """Return the reports applied within the time, and the calls that failed.

    Args:
        near: The database where rooms are made.
        far: The same behind the line, where reports are applied.
        name: The way.
        seconds: How long.
        tell: Called now and then, to show progress.
    """
    way = WAYS[name]()
    many = min(PROCESSES, way.connections)
    ready = _spawn.Barrier(1 + many + way.connections)
    over = _spawn.Value("b", 0, lock=False)
    shared = {
        "place": _spawn.Array("q", (FIRST_ROOM, 0)),
        "ready": ready,
        "over": over,
        "counts": _spawn.Queue(),
    }
    processes = [
        _spawn.Process(
            target=_client,
            args=(name, near, far, way.connections // many, shared),
            daemon=True,
        )
        for _ in range(many)
    ]
    for process in processes:
        process.start()
    try:
        ready.wait(READY_WITHIN)
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))
            tell()
        over.value = 1
        counts = [shared["counts"].get(timeout=READY_WITHIN) for _ in processes]
    finally:
        for process in processes:
            process.join(1.0)
            process.kill()
    applied, errors, took = (sum(column) for column in zip(*counts, strict=True))
    return {
        "processes": many,
        "reports": applied,
        "errors": errors,
        "client_us": round(took / max(applied, 1) * 1e6, 1),
    }
