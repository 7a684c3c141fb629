"""Why a job failed, as it is stored: whatever was raised."""

from __future__ import annotations

import json
import math

import pytest
from celery import Celery

from celery_sharding import TooManyFailed
from celery_sharding.flow.outcomes import raised
from celery_sharding.ledger.reasons import LONGEST, reason_of


class Odd(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        message = "no text"
        raise RuntimeError(message)


class Mute:
    """Its name cannot be had."""

    def __repr__(self) -> str:
        message = "no name"
        raise RuntimeError(message)


def caught(error: BaseException) -> BaseException:
    """Return an exception that was raised."""
    try:
        raise error  # noqa: TRY301  # for its traceback
    except BaseException as it:  # noqa: BLE001  # whatever it is
        return it


@pytest.fixture
def app() -> Celery:
    """Give an app without servers."""
    return Celery("reasons", backend="cache+memory://", set_as_current=False)


def test_a_failure_is_made_again(app: Celery) -> None:
    """With its class and arguments, code and traceback."""
    reason = reason_of(caught(KeyError("a", 1, None, 2.5)))
    assert reason["type"] == "KeyError"
    assert "caught" in reason["traceback"]
    made = raised(app, json.loads(json.dumps(reason)))
    assert isinstance(made, KeyError)
    assert made.args == ("a", 1, None, 2.5)
    ours = reason_of(TooManyFailed("too many"))
    assert ours["code"] == ""
    assert isinstance(raised(app, ours), TooManyFailed)


@pytest.mark.parametrize(
    "argument",
    [
        math.nan,
        math.inf,
        10**400,
        "a\0b",
        "\udc80",
        b"\xff",
        object(),
        Mute(),
        {"a": {1}},
        "long" * LONGEST,
    ],
)
def test_what_postgresql_would_refuse_is_told_as_text(argument: object) -> None:
    """Refused, the job would never get its outcome."""
    reason = reason_of(caught(ValueError(argument)))
    text = json.dumps(reason, allow_nan=False)
    assert "\\u0000" not in text
    assert "\\udc80" not in text
    assert len(text) < 5 * LONGEST


def test_a_failure_that_cannot_be_told_is_told_by_its_name() -> None:
    """Its own text fails."""
    reason = reason_of(caught(Odd("x")))
    assert reason["message"] == "Odd"
    assert reason["args"] == ["x"]


def test_a_class_that_ends_processes_is_not_made_again(app: Celery) -> None:
    """Whoever is told would end."""
    made = raised(app, reason_of(SystemExit(3)))
    assert isinstance(made, Exception)


def test_a_class_that_nobody_knows_has_its_name(app: Celery) -> None:
    """The worker that raised it knew more."""
    reason = {**reason_of(ValueError("x")), "module": "elsewhere", "type": "Rare"}
    made = raised(app, reason)
    assert type(made).__name__ == "Rare"
    assert made.args == ("x",)
