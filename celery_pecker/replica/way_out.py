"""Where won slots go, and what may hold entries back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, runtime_checkable

from celery import Celery
from celery.beat import ScheduleEntry
from kombu.utils.imports import symbol_by_name

from celery_pecker import foreign
from celery_pecker.errors import Misconfigured
from celery_pecker.gate import Gate, OpenGate
from celery_pecker.schedules import outgoing
from celery_pecker.settings import Settings


class WayOut(outgoing.Publisher, Protocol):
    """Where won slots go: the broker, or threads of this process."""

    def prepare(self, entry: ScheduleEntry) -> None:
        """Make ready what can be made ready before a claim."""
        ...

    def close(self) -> None:
        """Leave nothing open; never waits."""
        ...

    def abandon(self) -> None:
        """This process is a fork: what is open is its parent's."""
        ...


@runtime_checkable
class Runs(Protocol):
    """A way out that ends in this process."""

    now_us: Callable[[], int] | None
    """The database's time: set by whoever knows it, for reports of runs."""

    def held(self, names: Sequence[str]) -> Collection[str]:
        """Return those that cannot run here now: others may win them."""
        ...

    def take_missed(self) -> Counter[str]:
        """Return slots, by entry, taken and then not run, since last asked."""
        ...


class Prepared:
    """A way out that makes all entries ready when it is first there."""

    def __init__(
        self,
        way_out: WayOut,
        entries: list[ScheduleEntry],
        prepared: Callable[[], None],
    ) -> None:
        self._way_out = way_out
        self._unprepared = entries
        self._prepared = prepared
        self.publish = way_out.publish

    def ensure(self) -> None:
        """Be there, with everything built that can be built before a claim."""
        self._way_out.ensure()
        while self._unprepared:
            self._way_out.prepare(self._unprepared[-1])
            self._unprepared.pop()
            if not self._unprepared:
                self._prepared()


class Both:
    """A user's gate, and what cannot run here now."""

    def __init__(self, gate: Gate, runs: Runs) -> None:
        self._gate = gate
        self._runs = runs

    def held(self, names: Sequence[str]) -> set[str]:
        """Return what either holds back."""
        theirs = foreign.call("the gate", (), self._gate.held, names)
        return {*theirs, *self._runs.held(names)}


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
    return gate
