"""The store is asked off the loop, and not for those who have left."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from celery_pecker.surfaces.service.threads import Busy, InFlight, LastAnswer, Threads
from throttle.errors import StoreUnavailable
from throttle.model import TICK, UNSEEN, View
from throttle.service import WAIT


def test_what_waited_too_long_is_not_asked() -> None:
    """Nobody listens any more; the answer would only keep others waiting."""
    now = [0.0]
    asked: list[str] = []
    free = threading.Event()

    async def scene() -> None:
        lane = Threads(wait=WAIT, threads=1, clock=lambda: now[0])
        first = asyncio.create_task(lane.run(free.wait, 10))
        await asyncio.to_thread(lambda: None)
        late = asyncio.create_task(lane.run(asked.append, "late"))
        await asyncio.to_thread(lambda: None)
        now[0] = WAIT + 0.01
        free.set()
        assert await first
        with pytest.raises(Busy):
            await late
        await lane.run(asked.append, "in time")
        assert lane.refused == 1
        lane.close()

    asyncio.run(scene())
    assert asked == ["in time"]


def test_no_more_wait_than_there_is_room_for() -> None:
    """The rest hear so at once."""
    free = threading.Event()

    async def scene() -> None:
        # A clock that stands still: nobody has waited for long
        lane = Threads(wait=WAIT, threads=1, most=2, clock=lambda: 0.0)
        waiting = [asyncio.create_task(lane.run(free.wait, 2)) for _ in range(2)]
        while lane._in < 2:  # the loop begins tasks in an order of its own
            await asyncio.to_thread(lambda: None)
        with pytest.raises(Busy):
            await lane.run(free.wait, 2)
        free.set()
        await asyncio.wait(waiting)
        lane.close()

    asyncio.run(scene())


class Looked:
    """A store that is only looked at."""

    def __init__(self) -> None:
        self.looks = 0
        self.away = False

    def look(self) -> dict[str, View]:
        """Return one database, or be away."""
        self.looks += 1
        if self.away:
            message = "gone"
            raise StoreUnavailable(message)
        return {"main": UNSEEN}


def test_all_readers_see_one_look_per_tick() -> None:
    """However many there are, and when there is nothing to see too."""
    now, store = [0.0], Looked()

    async def scene() -> None:
        lane = Threads(wait=WAIT)
        look = partial(lane.run, store.look)
        last_look = LastAnswer(look, interval=TICK, clock=lambda: now[0])
        seen = await asyncio.gather(*(last_look.get() for _ in range(50)))
        assert all(one.keys() == {"main"} for one in seen)
        assert store.looks == 1
        store.away, now[0] = True, 0.11
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="gone"):
                await last_look.get()
        assert store.looks == 2
        store.away, now[0] = False, 0.3
        assert await last_look.get()
        lane.close()

    asyncio.run(scene())


def test_who_is_gone_is_known() -> None:
    """A service that ends waits for answers in flight, and no longer than it may."""

    async def scene() -> None:
        presence = InFlight()
        await presence.wait(0.0)
        presence.begin()
        presence.begin()
        presence.end()
        await presence.wait(0.001)
        assert presence.count == 1
        asyncio.get_running_loop().call_later(0.01, presence.end)
        await presence.wait(60.0)
        assert presence.count == 0

    asyncio.run(scene())
