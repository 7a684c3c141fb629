"""Where won slots go, and what may hold entries back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from celery import Celery
from kombu.utils.imports import symbol_by_name

from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.gate import ALLOWED, Gate, OpenGate, held_by, is_answer
from celery_pecker.kernel.settings import Settings

if TYPE_CHECKING:
    from celery_pecker.schedules.local.runner import LocalRunner


HELD_FOR = 10.0
"""Seconds for which what a gate held back counts as held: it is asked each second."""


class RecordingGate:
    """A user's gate, and what cannot run here now.

    It remembers what the user's held back lately, for alarms on another thread.
    """

    def __init__(self, gate: Gate, runs: "LocalRunner | None" = None) -> None:
        self._gate = gate
        self._runs = runs
        self._at: dict[str, float] = {}

    def held(self, names: Sequence[str]) -> set[str]:
        """Return what either holds back now."""
        held = held_by(self._gate, names)
        self._at.update(dict.fromkeys(held, monotonic()))
        return held if self._runs is None else {*held, *self._runs.held(names)}

    def recent(self) -> set[str]:
        """Return what it held back within the last seconds."""
        since = monotonic() - HELD_FOR
        return {name for name, at in [*self._at.items()] if at >= since}


def gate_of(settings: Settings, app: Celery) -> Gate:
    """Return the gate that the setting names, or one that is always open."""
    if settings.gate is None:
        return OpenGate()
    try:
        make = symbol_by_name(settings.gate)
    except (ImportError, AttributeError, ValueError) as error:
        raise Misconfigured(
            f"pecker_gate is {settings.gate!r}, which cannot be imported ({error});"
            " allowed is the dotted path of a callable that takes the app and returns"
            " a gate"
        ) from error
    gate: Gate = make(app)
    where = f"pecker_gate is {settings.gate!r}"
    if not callable(getattr(gate, "held", None)):
        raise Misconfigured(
            f"{where}, which returned {gate!r} for the app; allowed is an object with a"
            f" method held(names) that returns {ALLOWED}"
        )
    answer = user_code.call("the gate", (), gate.held, ())
    if not is_answer(answer):
        raise Misconfigured(
            f"{where}, whose held(()) returned {answer!r}; allowed is {ALLOWED}"
        )
    return gate
