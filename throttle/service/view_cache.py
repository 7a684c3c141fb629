"""What all readers see: one look at the store per tick, however many ask.

Also those without a token (`/health`): a flood of them costs ten looks per second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from celery_pecker.service.threads import Threads
from throttle.clock import Monotonic, monotonic
from throttle.errors import Away
from throttle.model import TICK, Store, View


class ViewCache:
    """The last look, or why there is none; for one event loop."""

    def __init__(
        self, store: Store, lane: Threads, *, clock: Monotonic = monotonic
    ) -> None:
        self._store = store
        self._lane = lane
        self._clock = clock
        self._looking: asyncio.Task[None] | None = None
        self._at = float("-inf")
        self._views: Mapping[str, View] = {}
        self._away: str | None = None

    async def views(self) -> Mapping[str, View]:
        """Return what is known, at most a tick old; raises Away."""
        if self._looking is None and self._clock() - self._at >= TICK:
            self._looking = asyncio.create_task(self._look())
        if self._looking is not None:
            await asyncio.shield(self._looking)
        if self._away is not None:
            raise Away(self._away)
        return self._views

    async def _look(self) -> None:
        # The age counts from before the question
        at = self._clock()
        try:
            self._views = await self._lane.run(self._store.look)
            self._away = None
        except Away as error:
            self._away = str(error)
        finally:
            self._at, self._looking = at, None
