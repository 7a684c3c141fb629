"""What cannot be is refused when a scheduler starts, in one line."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from celery_pecker.beat import PeckerScheduler
from celery_pecker.kernel.start_refused import StartRefused

GATE = "tests.integration.alarms.duty_app:gate"


def refused(**conf: Any) -> str:
    """Return why a scheduler with these settings does not start."""
    app = Celery("proj", set_as_current=False, broker="memory://")
    app.conf.update(pecker_dsn="postgresql://nobody@127.0.0.1:1/nothing", **conf)
    with pytest.raises(StartRefused) as caught:
        PeckerScheduler(app, lazy=False)
    return str(caught.value)


def test_a_rule_a_target_and_a_setting_that_cannot_be() -> None:
    """Named, with the value and what is allowed."""
    message = refused(pecker_alarms={"silent": {"after": -1}})
    assert "pecker_alarms['silent']['after'] is -1; allowed: a number" in message
    message = refused(pecker_alarms={"silent": {}}, pecker_alarms_to={"chat": "x"})
    assert "pecker_alarms_to['chat'] is neither; allowed: an Apprise URL" in message
    message = refused(pecker_alarms=["silent"])
    assert message == "pecker_alarms must be a dict, not ['silent']"
    message = refused(pecker_alarms_to=["json://user:secret@host"])
    assert message == "pecker_alarms_to must be a dict, not list"


@pytest.mark.parametrize("gate", [None, GATE])
def test_a_rule_for_a_gate_that_cannot_be_asked(gate: str | None) -> None:
    """It would never ring: nobody would know."""
    message = refused(pecker_alarms={"hot": {"when": "shut"}}, pecker_gate=gate)
    assert (
        f"pecker_alarms['hot'] looks for shut, and pecker_gate is {gate!r}" in message
    )
    assert "a gate that has a method shut()" in message
