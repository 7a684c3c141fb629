"""Renewals go on after a mistake, and are not repeated faster because work begins."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from celery_pecker.kernel.clock import monotonic
from celery_sharding.runner import hold_renewal
from celery_sharding.stages import leases as stages

CALM: Any = SimpleNamespace(due=float("inf"))
"""An item that does not hang."""


class Held:
    """A holding that is due at once."""

    is_held = True

    def __init__(self, error: Exception | None = None) -> None:
        self.renew_at = 0.0
        self.asked = threading.Event()
        self.instants: list[float] = []
        self._error = error

    def renew(self, _ledger: object) -> object:
        """Renew it, or fail."""
        self.instants.append(monotonic())
        self.asked.set()
        if self._error is not None:
            raise self._error
        self.renew_at = float("inf")
        return object()


@pytest.fixture(autouse=True)
def no_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement is run: what is held is a double."""
    for module in (hold_renewal, stages):
        monkeypatch.setattr(
            module, "at", lambda _app, role: SimpleNamespace(close=lambda: role)
        )


def test_a_mistake_at_one_holding_leaves_the_others_renewed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One thread renews all of them (I12)."""
    renewal = hold_renewal.HoldRenewal(object())
    broken: Any = Held(ZeroDivisionError("a mistake"))
    sound: Any = Held()
    with renewal.keeping(broken, CALM), renewal.keeping(sound, CALM):
        assert sound.asked.wait(30.0)
        thread = renewal._thread
        assert thread is not None
        assert thread.is_alive()
    assert "a mistake" in caplog.text


def test_work_that_begins_does_not_end_the_pause_after_a_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broken ledger is not asked once more for each item that begins."""
    monkeypatch.setattr(hold_renewal, "RETRY", 0.2)
    renewal = hold_renewal.HoldRenewal(object())
    broken: Any = Held(ZeroDivisionError("a mistake"))
    quiet: Any = Held()
    quiet.renew_at = float("inf")
    with renewal.keeping(broken, CALM):
        until = monotonic() + 30.0
        while len(broken.instants) < 3:
            assert monotonic() < until
            with renewal.keeping(quiet, CALM):
                pass
        first, second, third = broken.instants[:3]
    assert second - first >= 0.2
    assert third - second >= 0.2


def test_a_mistake_does_not_end_the_renewal_of_a_stage() -> None:
    """PreProcess may take hours, and another would begin it anew (I12)."""
    calls: list[int] = []
    twice = threading.Event()

    def renew(_ledger: object) -> bool:
        calls.append(1)
        if len(calls) > 1:
            twice.set()
        raise ZeroDivisionError

    with stages.LeaseRenewal(object(), 0.03, renew) as renewal:
        assert twice.wait(30.0)
        assert not renewal.lost
