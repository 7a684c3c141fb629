"""One look a second, and the last five minutes of each database."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from celery_pecker.kernel.once_a_minute import OnceAMinute
from throttle.clock import Monotonic, monotonic
from throttle.errors import ThrottleError
from throttle.model import Store
from throttle.overview import Picture, Sampler, open_store
from throttle.settings import Settings

logger = logging.getLogger("throttle")

EVERY = 1.0
KEPT = 300
"""Looks: five minutes."""
IDLE = 600.0
"""Seconds without a request after which the store is read no more."""
FIRST = 2.0
"""Seconds that the first request waits for the first read."""
OLD = 5.0
"""Seconds after which a picture counts as old: the thread hangs, or has died."""
MOST = 40
"""Databases whose last minutes are kept: those that need a look come first."""


class Point(NamedTuple):
    """One look at one database."""

    traffic: float
    limit: float
    """In force; 0: none."""
    held: int


class Watching:
    """What was seen of an app's databases lately; any thread may ask."""

    def __init__(
        self,
        settings: Settings,
        *,
        opens: Callable[[Settings], Store] = open_store,
        clock: Monotonic = monotonic,
    ) -> None:
        self._settings = settings
        self._opens = opens
        self._clock = clock
        self._change = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._seen = threading.Event()
        self._asked = clock()
        self._looked = clock()
        self._picture: Picture | None = None
        self._past: deque[Mapping[str, Point] | None] = deque(maxlen=KEPT)
        self._failed = OnceAMinute(logger, level=logging.ERROR)

    def picture(self) -> Picture:
        """Return what was read last; the first request waits for it, in bounded time.

        Raises what the settings are refused with.
        """
        self._wake()
        self._seen.wait(FIRST)
        picture, age = self._picture, self._clock() - self._looked
        if picture is None:
            message = "it was asked and has not answered yet"
            return Picture(
                at=0.0,
                databases=(),
                estimator=str(self._settings.estimator),
                away=message,
                since=age,
            )
        if age > OLD and not picture.away:
            return replace(picture, away="it does not answer", since=age)
        return picture

    def past(self) -> Sequence[Mapping[str, Point] | None]:
        """Return the looks of the last minutes, one a second; None: no answer."""
        with self._change:
            return tuple(self._past)

    def close(self) -> None:
        """End the thread that reads the store."""
        self._ended.set()
        thread = self._thread
        if thread is not None:
            thread.join(FIRST)

    def _wake(self) -> None:
        """Start a thread that looks, unless one does."""
        with self._change:
            self._asked = self._clock()
            if self._thread is not None and self._thread.is_alive():
                return
            store = self._opens(self._settings)
            self._past.clear()  # what was long ago is not shown as if it were recent
            self._thread = threading.Thread(
                target=self._look_on, args=(store,), name="throttle-flower", daemon=True
            )
            self._thread.start()

    def _look_on(self, store: Store) -> None:
        sampler = Sampler(store, self._settings, clock=self._clock)
        try:
            while not self._ended.is_set():
                # A mistake in a look is logged and ends no thread: the picture grows
                # old, which the page shows, and the next look is a second later.
                self._failed.call("throttle: a look", None, self._look, sampler)
                with self._change:
                    # Under the lock: else a thread would be woken that is just ending.
                    if self._clock() - self._asked > IDLE:
                        self._thread = None
                        return
                self._ended.wait(EVERY)
        finally:
            try:
                store.close()
            except ThrottleError as error:
                logger.debug("throttle: %s", error)

    def _look(self, sampler: Sampler) -> None:
        picture = sampler.sample()
        points = {
            status.name: Point(
                status.traffic.operations,
                (status.operations or 0.0) * status.factor,
                status.held,
            )
            for status in picture.databases[:MOST]
        }
        with self._change:
            self._picture, self._looked = picture, self._clock()
            self._past.append(None if picture.away else points)
        self._seen.set()
