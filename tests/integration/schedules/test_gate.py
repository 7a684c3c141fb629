"""A gate may hold entries back before their claim."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

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
