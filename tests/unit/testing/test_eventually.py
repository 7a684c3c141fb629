"""Waiting for a condition."""

from __future__ import annotations

import pytest

from celery_pecker.testing import eventually


def test_the_first_true_value_is_returned() -> None:
    """And the condition is not asked again."""
    answers = iter([0, "", "yes", pytest.fail])
    assert eventually(lambda: next(answers)) == "yes"


def test_the_condition_is_asked_even_without_any_time() -> None:
    """A timeout of 0 is one question."""
    assert eventually(lambda: True, 0)


def test_what_was_awaited_is_named() -> None:
    """An AssertionError, for that is what a test reports best."""
    with pytest.raises(AssertionError, match=r"not within 0\.05 s: rain"):
        eventually(lambda: False, 0.05, "rain")


def test_ignored_errors_mean_not_yet_and_are_told() -> None:
    """The last one is in the message and is the cause."""

    def refuse() -> bool:
        text = "not open"
        raise ConnectionRefusedError(text)

    with pytest.raises(AssertionError, match=r"refuse; the last answer was .*not open"):
        eventually(refuse, 0.05, ignoring=(OSError,))


def test_other_errors_are_raised_at_once() -> None:
    """Only what was named is waited out."""
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 / 0, ignoring=(OSError,))
