"""Errors carry the codes by which the design's scheduler knows them."""

from __future__ import annotations

import pickle

import pytest

from celery_pecker.kernel.errors import PeckerError
from celery_sharding import errors
from celery_sharding.errors import ShardingError

CODES = {
    "JobNotFound": "k_sc_ec_000004",
    "InstanceNotFound": "k_sc_ec_100004",
    "ProcessorNotRegistered": "k_sc_ec_300001",
    "NoExecutor": "k_sc_ec_300006",
}
OURS = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, ShardingError)
]


@pytest.mark.parametrize("name", [*CODES])
def test_a_code_leads_the_message(name: str) -> None:
    """People who know the number find it."""
    error = getattr(errors, name)("there is none called 'x'")
    assert str(error) == f"{CODES[name]}: there is none called 'x'"
    assert error.code == CODES[name]


@pytest.mark.parametrize("kind", OURS)
def test_an_error_survives_the_way_through_a_result_backend(
    kind: type[ShardingError],
) -> None:
    """Its code is not said twice, and who catches the kernel's errors catches it."""
    error = kind("why")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # as Celery does it
    assert type(again) is kind
    assert str(again) == str(error)
    assert issubclass(kind, PeckerError)


@pytest.mark.parametrize("kind", OURS)
def test_an_error_without_words_says_its_docstring(kind: type[ShardingError]) -> None:
    """What is documented and what is said cannot drift apart."""
    assert str(kind()).endswith((kind.__doc__ or "").strip())
