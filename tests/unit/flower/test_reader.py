"""Who waits for whom: questions of pages, threads, and what is told again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from celery import Celery

from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.kernel.settings import Settings
from celery_pecker.surfaces.flower import reader, waiting
from celery_pecker.surfaces.flower.pages import Page, Source
from celery_pecker.surfaces.flower.reader import THREADS, TURN, Reader, TooManyWaiting

SECOND = 1_000_000


class Clock:
    """A clock that goes on when a test says so."""

    def __init__(self) -> None:
        self.at = 1000.0

    def monotonic(self) -> float:
        """Return what it shows."""
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give the clock of all readers."""
    clock = Clock()
    monkeypatch.setattr(reader, "SYSTEM", clock)
    return clock


class Gate:
    """A database that answers when it is opened, and counts who asked."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.all_in = threading.Semaphore(0)
        self.asked = 0
        self.page = Page(
            name="gate", title="Gate", url="/gate", template="", read=self.read
        )

    def read(self, source: Source, query: Mapping[str, str]) -> dict[str, Any]:
        """Answer once it is open."""
        del source, query
        self.asked += 1
        self.all_in.release()
        self.open.wait(30.0)
        return {"now": 5 * SECOND}

    async def entered(self, times: int) -> None:
        """So many are inside."""
        for _ in range(times):
            await asyncio.to_thread(self.all_in.acquire, timeout=20.0)


@pytest.fixture
def made(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Give a reader; nothing here reaches its database, and no act waits in it."""
    del clock  # it reads that one
    monkeypatch.setattr(waiting, "shown", lambda _: {})
    app = Celery("reader")
    app.conf.pecker_dsn = "postgresql://nobody@localhost/nothing"
    return Reader(app)


def test_what_had_no_turn_in_time_is_not_asked_later(
    made: Reader, clock: Clock
) -> None:
    """Somebody was told that it failed: a run must not begin a minute later."""
    gate, done = Gate(), []

    async def people() -> None:
        waiting = [
            asyncio.ensure_future(made.read(gate.page, {"page": str(nth)}))
            for nth in range(THREADS)
        ]
        await gate.entered(THREADS)
        late = asyncio.ensure_future(
            made.act(gate.page, {}, lambda _: done.append("run"))
        )
        await asyncio.to_thread(int)  # the loop goes round
        clock.at += TURN + 1
        gate.open.set()
        await asyncio.gather(*waiting)
        with pytest.raises(TooManyWaiting):
            await late

    asyncio.run(people())
    assert not done


def test_many_browsers_are_one_question(made: Reader) -> None:
    """Also while it is being answered, and whoever goes away meanwhile."""
    gate = Gate()

    async def people() -> None:
        browsers = [asyncio.ensure_future(made.read(gate.page, {})) for _ in range(20)]
        await gate.entered(1)
        browsers[0].cancel()
        gate.open.set()
        assert len(await asyncio.gather(*browsers[1:])) == 19

    asyncio.run(people())
    assert gate.asked == 1


def test_the_time_of_an_answer_is_when_it_came(made: Reader, clock: Clock) -> None:
    """On a slow database nothing is overdue because the answer took long."""
    gate = Gate()

    async def people() -> tuple[Any, Any]:
        asked = asyncio.ensure_future(made.read(gate.page, {}))
        await gate.entered(1)
        clock.at += 0.75
        gate.open.set()
        first = await asked
        clock.at += 0.125
        return first, await made.read(gate.page, {})

    first, again = asyncio.run(people())
    assert first
    assert first["now"] == 5 * SECOND
    assert again
    assert again["now"] == 5 * SECOND + 125_000
    assert gate.asked == 1


def test_answers_are_not_kept_longer_than_they_are_told(
    made: Reader, clock: Clock
) -> None:
    """Pages of 600 slots would fill Flower's memory with what nobody asks again."""
    gate = Gate()
    gate.open.set()

    async def people() -> None:
        for nth in range(50):
            await made.read(gate.page, {"name": str(nth)})
            clock.at += 0.5

    asyncio.run(people())
    assert len(made._recent) <= 4


def test_an_old_error_takes_no_new_answer_away(made: Reader) -> None:
    """What was asked before an action fails after it; what is asked now stays one."""
    old, new = Gate(), Gate()

    def failing(source: Source, query: Mapping[str, str]) -> dict[str, Any]:
        old.read(source, query)
        message = "gone"
        raise DatabaseUnavailable(message)

    async def people() -> None:
        page = Page(name="gate", title="Gate", url="/", template="", read=failing)
        before = asyncio.ensure_future(made.read(page, {}))
        await old.entered(1)
        await made.act(new.page, {}, lambda _: None)
        after = asyncio.ensure_future(made.read(new.page, {}))
        await new.entered(1)
        old.open.set()
        with pytest.raises(DatabaseUnavailable):
            await before
        await asyncio.to_thread(int)  # the loop goes round
        again = asyncio.ensure_future(made.read(new.page, {}))
        await asyncio.to_thread(int)  # the loop goes round
        new.open.set()
        await asyncio.gather(after, again)

    asyncio.run(people())
    assert new.asked == 1


def test_a_database_that_hangs_holds_up_no_other(made: Reader) -> None:
    """Each of a page's databases has threads of its own; an unknown one is none."""
    gate = Gate()
    settings = Settings(dsn="postgresql://nobody@localhost/nothing", app="shop")

    def read(source: Source, query: Mapping[str, str]) -> dict[str, Any]:
        if query.get("outbox") == "eu":
            return gate.read(source, query)
        return {"depth": 7}

    page = Page(
        name="several",
        title="",
        url="/several",
        template="",
        read=read,
        places=lambda _: {"home": settings, "eu": settings},
    )

    async def people() -> tuple[Any, Any]:
        hang = [
            asyncio.ensure_future(made.read(page, {"outbox": "eu", "task": str(nth)}))
            for nth in range(2 * THREADS)
        ]
        await gate.entered(THREADS)
        home = await made.read(page, {})
        nobody = await made.read(page, {"outbox": "us"})
        gate.open.set()
        await asyncio.gather(*hang)
        return home, nobody

    home, nobody = asyncio.run(people())
    assert home == {"depth": 7, "place": "home", "places": ["home", "eu"]}
    assert nobody is None
