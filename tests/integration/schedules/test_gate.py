"""A gate may hold entries back before their claim."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules.replica.dispatching import gate_of
from celery_pecker.testing.manual import START
from tests.integration.schedules.conftest import Starter


def test_a_gate_holds_an_entry_and_its_slot_follows_the_policy(start: Starter) -> None:
    """Held before the claim: nothing is lost, it coalesces when let go."""

    class Shut:
        shut = True

        def held(self, names: Sequence[str]) -> Collection[str]:
            return [name for name in names if name == "heavy" and self.shut]

    gate = Shut()
    pecker = start({"heavy": 1.0, "light": 1.0}, gate=gate)
    assert {one.name for one in pecker.pass_time(5.05)} == {"light"}
    gate.shut = False
    sent = pecker.pass_time(0.2)
    assert [one.name for one in sent] == ["heavy"]
    assert sent[0].header["due_at"] == (START + timedelta(seconds=5)).isoformat(
        timespec="microseconds"
    )


def test_a_gate_that_fails_lets_the_entries_pass(start: Starter) -> None:
    """Whoever writes a gate must not be able to stop the schedule by a mistake."""

    class Broken:
        def held(self, names: Sequence[str]) -> Collection[str]:
            raise RuntimeError(names)

    assert len(start({"sweep": 1.0}, gate=Broken()).pass_time(3.1)) == 3


@pytest.mark.parametrize("answer", [None, "sweep", 7], ids=repr)
def test_a_gate_with_an_odd_answer_holds_nothing(
    start: Starter, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """None, of a forgotten return, stopped all entries."""

    class Odd:
        def held(self, names: Sequence[str]) -> Collection[str]:
            return answer  # type: ignore[no-any-return]

    assert len(start({"sweep": 1.0}, gate=Odd()).pass_time(3.1)) == 3
    assert f"held() returned {answer!r}" in caplog.text


class _Nothing:
    """A gate whose author forgot to return."""

    def held(self, names: Sequence[str]) -> None:
        """Return nothing."""


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        (lambda _: None, ["returned None", "held(names)"]),
        (lambda _: _Nothing(), ["held(()) returned None", "() for none"]),
    ],
)
def test_a_gate_that_cannot_answer_is_refused_at_the_start(
    gate: Callable[[Celery], object], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any claim, with what is allowed."""
    monkeypatch.setitem(sys.modules, "gates", types.SimpleNamespace(mine=gate))
    settings = Settings.read(
        {"pecker_dsn": "postgresql://localhost/x", "pecker_gate": "gates:mine"},
        main="test",
    )
    with pytest.raises(Misconfigured) as refusal:
        gate_of(settings, Celery("test", set_as_current=False))
    for word in ["pecker_gate is 'gates:mine'", *words]:
        assert word in str(refusal.value)
