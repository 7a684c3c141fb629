"""Splay and jitter: instants moved on a little, so that not everything comes at once.

By how much follows from a key and, for jitter, from the instant: each replica moves a
slot by the same. In our scheduler the key is the entry's name unless one is given.
"""

from datetime import datetime, timedelta, tzinfo
from hashlib import blake2b
from typing import Any, Self

from celery_pecker.calendars import phrases
from celery_pecker.calendars.checks import Duration, refuse, seconds_of
from celery_pecker.calendars.schedule import MICROSECOND, CalendarSchedule

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # naive UTC
SHORTEST = 0.1
LONGEST = 366 * 86_400.0
CANDIDATES = 100
"""Instants that are looked at for the one that comes first, at most: where clocks
change, more of them may be close together than at other times."""


class Moved(CalendarSchedule):
    """A schedule whose instants are moved on; what is common to both kinds."""

    base: CalendarSchedule

    def bound(self, app: Any, name: str) -> Self:
        """Return a copy for one entry, whose name is the key unless there is one."""
        mine = super().bound(app, name)
        mine.base = self.base.bound(app, name)
        mine.key = self.key or name
        return mine

    def __init__(
        self,
        kind: str,
        base: CalendarSchedule,
        options: dict[str, object],
        key: str | None,
    ) -> None:
        super().__init__(kind, (base,), {**options, "key": key})
        self.own_zone = base.own_zone
        if key is not None and not isinstance(key, str):
            refuse(self._text, "key", key, "a text")
        self.base = base
        self.shortest = base.shortest
        self.key = key

    def _after(self, utc: datetime, zone: tzinfo) -> datetime | None:
        longest = self._most()
        best = None
        before = utc - longest
        for _ in range(CANDIDATES):
            instant = self.base.utc_after(before, zone)
            if instant is None or (best is not None and instant >= best):
                break
            moved = instant + self._by(instant)
            if moved > utc and (best is None or moved < best):
                best = moved
            before = instant
        return best

    def _share(self, of: timedelta, *parts: object) -> timedelta:
        """Return a part of a time, drawn by the key and by what else is named."""
        text = "\0".join(map(str, (self.key or self._text, *parts))).encode()
        drawn = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
        return of // MICROSECOND * drawn // 2**64 * MICROSECOND

    def _most(self) -> timedelta:
        raise NotImplementedError

    def _by(self, instant: datetime) -> timedelta:
        return self._most()


class Every(CalendarSchedule):
    """A plain interval as a calendar: whole periods since 1970."""

    def __init__(self, seconds: float) -> None:
        super().__init__("every", (seconds,), {})
        self._text = f"{seconds:g}"
        self.seconds = seconds
        self.shortest = seconds

    @property
    def words(self) -> str:
        """The interval in words."""
        return phrases.seconds_in_words(self.seconds)

    def _after(self, utc: datetime, zone: tzinfo) -> datetime:
        period = timedelta(seconds=self.seconds)
        return EPOCH + ((utc - EPOCH) // period + 1) * period


class Splayed(Moved):
    """A schedule moved on by a fixed part of ``over`` that follows from the key.

    Of seconds (a plain interval) ``over`` is the whole period, so that equal entries
    lie spread over it. Raises Misconfigured.
    """

    def __init__(
        self,
        base: CalendarSchedule | Duration,
        *,
        over: Duration | None = None,
        key: str | None = None,
    ) -> None:
        if not isinstance(base, CalendarSchedule):
            seconds = seconds_of("splay", "every", base, least=SHORTEST, most=LONGEST)
            base, over = Every(seconds), seconds if over is None else over
        super().__init__("splay", base, {"over": over}, key)
        self.over = seconds_of(self._text, "over", over, least=SHORTEST, most=LONGEST)

    @property
    def words(self) -> str:
        """The schedule in words."""
        by = self._most()
        return f"{self.base.words}, each moved on by {by.total_seconds():g} s (splay)"

    def _most(self) -> timedelta:
        return self._share(timedelta(seconds=self.over))


splay = Splayed


class Jittered(Moved):
    """A schedule whose instants come up to ``most`` seconds later, each its own.

    ``most`` is at most the shortest gap between two instants. Raises Misconfigured.
    """

    def __init__(
        self, base: CalendarSchedule, *, most: Duration, key: str | None = None
    ) -> None:
        if not isinstance(base, CalendarSchedule):
            refuse("jitter", "the schedule", base, "cron, recurrence, rrule or splay")
        super().__init__("jitter", base, {"most": most}, key)
        # No more than the shortest gap: the order of the instants stays as it is.
        longest = base.shortest
        self.most = seconds_of(self._text, "most", most, least=0.001, most=longest)

    @property
    def words(self) -> str:
        """The schedule in words."""
        return f"{self.base.words}, each up to {self.most:g} s later (jitter)"

    def _most(self) -> timedelta:
        return timedelta(seconds=self.most)

    def _by(self, instant: datetime) -> timedelta:
        return self._share(self._most(), instant.isoformat())


jitter = Jittered
