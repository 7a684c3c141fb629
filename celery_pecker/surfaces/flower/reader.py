"""Asks databases on threads of their own: Flower's loop never waits for them.

Each thread has a connection, and each database threads of its own: one that hangs holds
up no question to another. Whatever happens to the database, a question ends: with an
answer, or with the error that the page shows.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from celery import Celery

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import DatabaseUnavailable, PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.surfaces.flower import waiting
from celery_pecker.surfaces.flower.pages import (
    PLACE,
    Origin,
    Page,
    Query,
    Source,
)
from celery_pecker.surfaces.flower.upcoming import Upcoming
from celery_pecker.surfaces.service.threads import Threads

logger = logging.getLogger(__name__)

FRESH = 1.0
"""Seconds for which an answer is used again, for other browsers too."""
KEPT = 256
"""Answers, at most."""
THREADS = 4
"""Of each database."""
WAITING = 64
"""Questions to one database at once, at most; the next is refused. A browser asks again
anyway."""
TURN = 4.0
"""Seconds until a question that had no turn is given up. A browser waits for ten, and
what was reported as failed must not be done a minute later."""

Answer = TypeVar("Answer")
_Key = tuple[str, frozenset[tuple[str, str]]]
Call = Callable[[Source], Answer]


class UnknownDatabase(PeckerError, LookupError):
    """An address chooses a database that the page does not have."""


class TooManyWaiting(DatabaseUnavailable):
    """The database was not even asked: other questions wait for it already."""


@dataclass(slots=True)
class _Recent:
    """What one question was answered lately, or will be."""

    answer: asyncio.Future[dict[str, Any] | None]
    asked: float
    answered_at: float = 0.0
    """When the answer came."""

    def old(self, now: float) -> bool:
        """Return whether it is to be asked again."""
        return self.answer.done() and now - self.asked > FRESH


class Lane:
    """Questions to one database, on threads of their own."""

    def __init__(self, app: Celery, settings: Callable[[], Settings]) -> None:
        self._app = app
        self._settings = settings
        self._upcoming = Upcoming(app)
        self._mine = threading.local()
        self.threads = Threads(
            wait=TURN,
            threads=THREADS,
            most=WAITING,
            refusal=TooManyWaiting,
            clock=SYSTEM.monotonic,
        )

    async def read(self, call: Call[Answer]) -> Answer:
        """Return the answer, from a connection that may have been dropped meanwhile."""

        def asked() -> Answer:
            source = self._source()
            stood = source.database.connected
            try:
                return call(source)
            except DatabaseUnavailable:
                if not stood:
                    raise
                # The server was restarted since the last question.
                return call(source)

        return await self.threads.run(asked)

    async def write(self, call: Call[Answer]) -> Answer:
        """Return the answer to what must not be sent twice: over a new connection."""

        def asked() -> Answer:
            source = self._source()
            source.database.close()
            return call(source)

        return await self.threads.run(asked)

    def _source(self) -> Source:
        """Return this thread's own; settings are read here, so that a page tells."""
        source: Source | None = getattr(self._mine, "source", None)
        if source is None:
            settings = self._settings()
            database = Database.of(settings, role="flower")
            source = self._mine.source = Source(
                app=self._app,
                database=database,
                upcoming=self._upcoming,
                settings=settings,
            )
        return source


class Reader:
    """Questions of pages to the database of an app."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._main = Lane(app, lambda: Settings.read(app.conf, main=app.main))
        self._lanes: dict[str, Lane] = {}
        self._opening = threading.Lock()
        self._opened: dict[str, Any] = {}
        self._recent: dict[_Key, _Recent] = {}
        self._waiting: set[asyncio.Future[None]] = set()

    async def read(self, page: Page, query: Query) -> dict[str, Any] | None:
        """Return what a page shows; asked once a second, however many look at it."""
        key = (page.name, frozenset(query.items()))
        now = SYSTEM.monotonic()
        known = self._recent.get(key)
        if known is None or known.old(now):
            known = self._begin(key, self._read(page, query), now)
        # Shielded, because others wait for the same when one browser is closed.
        data = await asyncio.shield(known.answer)
        if data is None or "now" not in data:
            return data
        # From when it came, not from when it was asked: on a busy database an entry
        # would be shown as overdue by as long as the answer took.
        age_us = int((SYSTEM.monotonic() - known.answered_at) * 1_000_000)
        return {**data, "now": data["now"] + age_us}

    async def _read(self, page: Page, query: Query) -> dict[str, Any] | None:
        try:
            _, places = self._lane(page, query)
        except UnknownDatabase:
            return None

        def reading(source: Any) -> dict[str, Any] | None:
            data = page.read(source, query)
            if page.opens is None and data:
                data |= {**waiting.shown(source), **places}
            return data

        return await self._asked(page, query, reading)

    async def _asked(
        self, page: Page, query: Query, call: Callable[..., Answer], *args: Any
    ) -> Answer:
        """Return what is read from what the page reads from; on a thread."""
        if page.opens is not None:
            return await self._main.threads.run(lambda: call(self._open(page), *args))
        lane, _ = self._lane(page, query)
        return await lane.read(lambda source: call(source, *args))

    def _begin(
        self,
        key: _Key,
        reading: Coroutine[Any, Any, dict[str, Any] | None],
        now: float,
    ) -> _Recent:
        """Ask; drop older answers, which may be large."""
        for other in [key for key, known in self._recent.items() if known.old(now)]:
            del self._recent[other]
        while len(self._recent) >= KEPT:
            del self._recent[next(iter(self._recent))]
        mine = self._recent[key] = _Recent(asyncio.ensure_future(reading), now)
        mine.answer.add_done_callback(lambda _: self._end(key, mine))
        return mine

    def _end(self, key: _Key, mine: _Recent) -> None:
        """Keep an answer for later requests; raise an error in those that waited."""
        mine.answered_at = SYSTEM.monotonic()
        failed = mine.answer.cancelled() or mine.answer.exception() is not None
        if failed and self._recent.get(key) is mine:
            del self._recent[key]

    def _open(self, page: Page) -> Any:
        """Return what the page reads from; made once, by the first request."""
        assert page.opens is not None  # noqa: S101 — asked before
        with self._opening:
            if page.name not in self._opened:
                self._opened[page.name] = page.opens(self._app)
            return self._opened[page.name]

    async def act(
        self, page: Page, query: Query, call: Call[Answer], *, writes: bool = True
    ) -> Answer:
        """Do something on a page, in the database that its address has chosen.

        Raises:
            UnknownDatabase: the address names none of them.
        """
        lane, _ = self._lane(page, query)
        if not writes:
            return await lane.read(call)
        try:
            return await lane.write(call)
        finally:
            self._recent.clear()  # the next request shows the change

    async def find(self, page: Page, task_id: str, task: str) -> list[Origin]:
        """Return what the task comes from, of what a page shows."""
        finds, found = page.finds, list[Origin]()
        assert finds is not None  # noqa: S101 — asked before
        places = page.places(self._app) if page.places else {}
        for place in [{PLACE: name} for name in places] or [{}]:
            try:
                origin = await self._asked(page, place, finds, task_id, task)
            except PeckerError as error:  # its own page says so
                logger.info("pecker: %s is not asked: %s", page.title, error)
            else:
                if origin is not None:
                    query = {**place, **origin.query}
                    found.append(origin._replace(query=query))
        return found

    def carry_out(self, page: Page, query: Query, *, after: float = 0.0) -> None:
        """Have what is due in the page's database done, after so many seconds."""
        lane, _ = self._lane(page, query)

        async def carry_out() -> None:
            await asyncio.sleep(after)
            try:
                await lane.write(waiting.carry_out)
            except PeckerError as error:  # the next page that is read tries it again
                logger.warning("pecker: what is due is not done: %s", error)
            finally:
                self._recent.clear()

        task = asyncio.ensure_future(carry_out())
        self._waiting.add(task)  # or it might be collected
        task.add_done_callback(self._waiting.discard)

    def _lane(self, page: Page, query: Query) -> tuple[Lane, dict[str, Any]]:
        """Return the lane that an address has chosen, and what the page says of it.

        Each place has its own: its server may hang, and the others go on.

        Raises:
            UnknownDatabase: the address names none of them.
        """
        if page.places is None:
            return self._main, {}
        places = page.places(self._app)
        place = query.get(PLACE, next(iter(places)))
        if place not in places:
            raise UnknownDatabase(f"{PLACE} {place!r}: the app has {', '.join(places)}")
        if place not in self._lanes:
            self._lanes[place] = Lane(self._app, lambda: places[place])
        return self._lanes[place], {"place": place, "places": [*places]}
