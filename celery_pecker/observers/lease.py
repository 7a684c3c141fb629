"""What an observer's code is called with: its right to run, and its cursor."""

import json
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from celery_pecker.kernel.adapters import adapter_of, async_adapter_of, drive
from celery_pecker.kernel.adapters.adapter import Flow, Statement
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import LeaseLost, NotRecorded
from celery_pecker.kernel.lease import TrustWindow
from celery_pecker.observers import refusals
from celery_pecker.observers.model import Unreachable

UNTRUSTED = TrustWindow(opened=float("-inf"), seconds=0.0)
_KEEP: Any = object()


class Trust:
    """For how long a host believes that it holds its lease (I2)."""

    def __init__(self) -> None:
        self._window = UNTRUSTED

    def renew(self, opened: float, seconds: float) -> None:
        """Trust from that instant on; it lies before the renewal was sent."""
        self._window = TrustWindow(opened=opened, seconds=seconds)

    def end(self) -> None:
        """Trust no more: the host was buried."""
        self._window = UNTRUSTED

    def left(self) -> float:
        """Return the seconds that are left; zero or less: none."""
        return self._window.remaining(monotonic())

    @property
    def until(self) -> float:
        """The instant at which it ends, by the monotonic clock of this machine."""
        return self._window.opened + self._window.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """An observer that this host has taken."""

    id: int
    epoch: int
    name: str
    kind: str
    args: dict[str, Any]
    weight: int
    state: Any
    failures: int
    delay: float
    """Seconds before it may begin: it failed not long ago."""
    node: str
    moved: bool = False


class Lease:
    """The right of one life of an observer to run."""

    def __init__(
        self,
        claimed: Claimed,
        trust: Trust,
        *,
        schema: str,
        unreachable: Unreachable,
        save: Callable[[int, int, str], None],
    ) -> None:
        self.name = claimed.name
        self.kind = claimed.kind
        self.epoch = claimed.epoch
        """The fencing token: each life of an observer has a higher one."""
        self._claimed = claimed
        self._trust = trust
        self._schema = schema
        self._unreachable = unreachable
        self._save = save
        self._state = claimed.state
        self._over = threading.Event()
        self._why = ""
        self.lapsed = False
        """Whether this life was seen without trust: an end of its code is none then."""

    def check(self) -> None:
        """Raise LeaseLost where this life is to end, or is not trusted any more."""
        if self._over.is_set():
            raise LeaseLost(self._text(self._why))
        if self._untrusted():
            raise LeaseLost(self._text("its host could not renew the lease"))

    @property
    def stopping(self) -> bool:
        """Whether this life is to end: stopped, moved, or not trusted any more."""
        return self._over.is_set() or self._untrusted()

    def wait(self, seconds: float) -> bool:
        """Block the thread for so long, or until this life is to end; return whether.

        For plain functions; what is async awaits ``asyncio.sleep`` and is cancelled.
        """
        return self._over.wait(seconds) or self.stopping

    @property
    def state(self) -> Any:
        """The small cursor, from which the next life begins; None at first.

        Assign a new value, as JSON can say it, 4,096 bytes at most: it is written with
        the next look of the host at the database, twice a second by default. Where it
        has to be written with other rows, call ``guard(connection, state=…)``.
        """
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        text = refusals.state(self.name, value)
        self._state = json.loads(text)
        self._save(self._claimed.id, self.epoch, text)

    def guard(self, connection: Any, *, state: Any = _KEEP) -> Awaitable[None] | None:
        """Hold the observer in a connection's open transaction, or raise LeaseLost.

        Until that transaction ends no other life of this observer begins; if one has
        begun, nothing may be written. For a connection that is awaited the call is
        awaited too; both kinds are those of ``start``.

        Args:
            connection: of psycopg, SQLAlchemy or Django, to the database of
                ``pecker_dsn``, with a transaction open.
            state: the cursor, written with that transaction.

        Raises:
            LeaseLost: another life has begun, or this one is to end.
            NotRecorded: the connection has no transaction that can be held in.
        """
        text = None if state is _KEEP else refusals.state(self.name, state)
        if self._over.is_set():
            raise LeaseLost(self._text(self._why))
        flow = self._flow(text)
        try:
            adapter = adapter_of(connection)
        except NotRecorded:
            awaited = async_adapter_of(connection)
        else:
            drive(adapter, lambda _: flow)
            self._kept(state)
            return None

        async def hold() -> None:
            await awaited.drive(lambda _: flow)
            self._kept(state)

        return hold()

    def end(self, why: str) -> None:
        """End this life: `check` raises, `wait` returns."""
        self._why = why
        self._over.set()

    def lapse(self) -> None:
        """Note that this life was seen without trust, in a process of its own."""
        self.lapsed = True

    def _untrusted(self) -> bool:
        untrusted = self._unreachable is Unreachable.STOP and self._trust.left() <= 0
        self.lapsed = self.lapsed or untrusted
        return untrusted

    def _flow(self, state: str | None) -> Flow[None]:
        one = self._claimed
        [(held,)] = yield Statement.of(
            self._schema,
            "hold_observer",
            id=one.id,
            epoch=one.epoch,
            node=one.node,
            state=state,
            left_ms=int(max(self._trust.left(), 1.0) * 1000),
        )
        if not held:
            raise LeaseLost(self._text("another life of it has begun, or will"))

    def _kept(self, state: Any) -> None:
        if state is not _KEEP:
            self._state = state

    def _text(self, why: str) -> str:
        return (
            f"observer {self.name!r}, epoch {self.epoch}: {why}; stop, and write"
            " nothing more"
        )
