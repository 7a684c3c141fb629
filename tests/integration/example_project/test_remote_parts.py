"""The remote parts over real sockets, and how they are asked."""

from __future__ import annotations

import pytest

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.testing import eventually
from example_project.ask import Answer, Patience, ask
from example_project.parts.fault import Fault
from tests.integration.example_project.conftest import Remote

PARTS = ["agent", "backend", "equipment"]
SHORT = Patience(slow=0.4, timeout=0.9)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_well_says_ok(remote: Remote, part: str) -> None:
    """A part that nobody broke answers the call that it was asked about."""
    assert ask(remote.at(part), part, 1) is Answer.OK


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        (Fault.SLOW, Answer.SLOW),
        (Fault.REFUSED, Answer.REFUSED),
        (Fault.HANGS, Answer.TIMEOUT),
        (Fault.WRONG, Answer.WRONG),
    ],
)
@pytest.mark.parametrize("part", ["agent", "equipment"])
def test_each_fault_is_told_from_the_others(
    remote: Remote, part: str, fault: Fault, answer: Answer
) -> None:
    """A broken part answers as it is broken, only for its call, until it is healed."""
    remote.control.break_part(part, 2, fault)
    assert ask(remote.at(part, 2), part, 2, patience=SHORT) is answer
    assert ask(remote.at(part, 1), part, 1, patience=SHORT) is Answer.OK
    remote.control.heal(part, 2)
    assert ask(remote.at(part, 2), part, 2, patience=SHORT) is Answer.OK


def test_a_hanging_part_costs_no_more_than_the_patience(remote: Remote) -> None:
    """An answer that never comes is given up in time."""
    remote.control.break_part("equipment", 1, Fault.HANGS)
    began = SYSTEM.monotonic()
    patience = Patience(slow=0.1, timeout=0.3)
    answer = ask(remote.at("equipment"), "equipment", 1, patience=patience)
    assert answer is Answer.TIMEOUT
    assert 0.3 <= SYSTEM.monotonic() - began < 10.0


def test_a_call_that_nobody_asks_about_is_dropped(remote: Remote) -> None:
    """The backend hangs up on silent calls alone, and says so for good."""
    remote.control.hold(3, 0.6)

    def dropped() -> list[int]:
        ask(remote.at("backend"), "backend", 2)
        return remote.control.dropped()

    eventually(lambda: dropped() == [1, 3], 30.0, "calls 1 and 3 are dropped")
    assert ask(remote.at("backend"), "backend", 1) is Answer.GONE
    assert ask(remote.at("backend"), "backend", 2) is Answer.OK
    assert remote.control.silence() >= 0.6


def test_an_unknown_order_is_refused(remote: Remote) -> None:
    """The control port says so when it does not understand."""
    with pytest.raises(RuntimeError, match="unknown"):
        remote.control.heal("agent 1", 2)
