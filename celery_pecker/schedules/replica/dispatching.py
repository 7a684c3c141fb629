"""Where won slots go, and what may hold entries back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from celery import Celery
from celery.beat import ScheduleEntry
from kombu.utils.imports import symbol_by_name

from celery_pecker.brokers.publisher.dispatch import Dispatch
from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.gate import ALLOWED, Gate, OpenGate, held_by, is_answer
from celery_pecker.kernel.settings import Settings


class Destination(Protocol):
    """Where won slots go: the broker, or threads of this process."""

    def ensure(self) -> None:
        """Connect, or raise BrokerUnavailable."""
        ...

    def publish(self, batch: Sequence[Dispatch], token: str, *, within: float) -> None:
        """Put the batch on its way within so many seconds, or raise."""
        ...

    def prepare(self, entry: ScheduleEntry) -> str | None:
        """Make ready what can be made ready before a claim; return why it cannot."""
        ...

    def forget(self, name: str) -> None:
        """Forget what was made ready for an entry."""
        ...

    def close(self) -> None:
        """Leave nothing open; never waits."""
        ...

    def abandon(self) -> None:
        """Let go of what the process has open that this one was forked from."""
        ...


class Runs(Destination, Protocol):
    """Threads of this process that run won slots."""

    def held(self, names: Sequence[str]) -> Collection[str]:
        """Return those that cannot run here now: others may win them."""
        ...

    def take_missed(self) -> Counter[str]:
        """Return slots, by entry, taken and then not run, since last asked."""
        ...


class Prepared:
    """A way out that builds each entry's message before its first claim.

    Building takes about half a millisecond: 20,000 entries that were all built before
    the first claim kept a replica from its work for 25 seconds. What is due is built
    just before it is claimed, the rest while nothing is due.
    """

    def __init__(
        self,
        destination: Destination,
        entries: Iterable[ScheduleEntry],
        prepared: Callable[[], None],
        *,
        clock: Clock,
    ) -> None:
        self._destination = destination
        self._unprepared = {str(entry.name): entry for entry in entries}
        self._prepared = prepared
        self._clock = clock
        self.ensure = destination.ensure

    def publish(self, batch: Sequence[Dispatch], token: str, *, within: float) -> None:
        """Publish, with the entries built that no claim of this process came before."""
        self.prepare([dispatch.name for dispatch in batch])
        self._destination.publish(batch, token, within=within)

    def prepare(self, names: Iterable[str]) -> None:
        """Build the messages of these entries, unless they are built."""
        if not self._unprepared:
            return  # from then on this costs a wake-up nothing
        for name in names:
            if name in self._unprepared:
                self._prepare(name)

    def prepare_more(self, *, within: float) -> bool:
        """Build others for so many seconds; return whether there are more."""
        until = self._clock.monotonic() + within
        while self._unprepared and self._clock.monotonic() < until:
            self._prepare(next(iter(self._unprepared)))
        return bool(self._unprepared)

    def _prepare(self, name: str) -> None:
        self._destination.prepare(self._unprepared[name])
        del self._unprepared[name]
        if not self._unprepared:
            self._prepared()


HELD_FOR = 10.0
"""Seconds for which what a gate held back counts as held: it is asked each second."""


class RecordingGate:
    """A gate that remembers what it held back lately, for alarms on another thread."""

    def __init__(self, gate: Gate, *, clock: Clock = SYSTEM) -> None:
        self._gate = gate
        self._clock = clock
        self._at: dict[str, float] = {}

    def held(self, names: Sequence[str]) -> set[str]:
        """Return what it holds back now."""
        held = held_by(self._gate, names)
        self._at.update(dict.fromkeys(held, self._clock.monotonic()))
        return held

    def recent(self) -> set[str]:
        """Return what it held back within the last seconds."""
        since = self._clock.monotonic() - HELD_FOR
        return {name for name, at in [*self._at.items()] if at >= since}


class CombinedGate:
    """A user's gate, and what cannot run here now."""

    def __init__(self, gate: Gate, runs: Runs) -> None:
        self._gate = gate
        self._runs = runs

    def held(self, names: Sequence[str]) -> set[str]:
        """Return what either holds back."""
        return {*held_by(self._gate, names), *self._runs.held(names)}


def gate_of(settings: Settings, app: Celery) -> Gate:
    """Return the gate that the setting names, or one that is always open."""
    if settings.gate is None:
        return OpenGate()
    try:
        make = symbol_by_name(settings.gate)
    except (ImportError, AttributeError, ValueError) as error:
        message = (
            f"pecker_gate is {settings.gate!r}, which cannot be imported ({error});"
            " allowed is the dotted path of a callable that takes the app and returns"
            " a gate"
        )
        raise Misconfigured(message) from error
    gate: Gate = make(app)
    where = f"pecker_gate is {settings.gate!r}"
    if not callable(getattr(gate, "held", None)):
        message = (
            f"{where}, which returned {gate!r} for the app; allowed is an object with a"
            f" method held(names) that returns {ALLOWED}"
        )
        raise Misconfigured(message)
    answer = user_code.call("the gate", (), gate.held, ())
    if not is_answer(answer):
        message = f"{where}, whose held(()) returned {answer!r}; allowed is {ALLOWED}"
        raise Misconfigured(message)
    return gate
