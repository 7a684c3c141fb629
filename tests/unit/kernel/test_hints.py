"""Hints name the app that the process was started with."""

from __future__ import annotations

import sys

import pytest

from celery_pecker.kernel.app_modules import own_app

HINT = "celery -A proj pecker migrate"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["celery", "-A", "shop.celery", "beat"], "shop.celery"),
        (["celery", "--app", "shop", "pecker"], "shop"),
        (["celery", "--app=shop", "pecker"], "shop"),
        (["celery", "pecker"], "proj"),
    ],
)
def test_a_hint_can_be_typed_as_it_is(
    words: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever way the app was named; where none was, the usual one stays."""
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.delenv("APP", raising=False)
    assert own_app(HINT) == HINT.replace("proj", name)
