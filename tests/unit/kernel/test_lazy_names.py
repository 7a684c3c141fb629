"""Public names that are loaded when they are first used: each is there."""

from __future__ import annotations

from importlib import import_module

import pytest

PACKAGES = (
    *("celery_pecker", "celery_pecker.observers", "celery_pecker.outbox"),
    *("celery_pecker.schedules", "celery_pecker.surfaces.metrics"),
    *("celery_sharding", "throttle"),
)


@pytest.mark.parametrize("name", PACKAGES)
def test_each_public_name_is_there(name: str) -> None:
    """Also where its module has moved."""
    package = import_module(name)
    assert {*package.__all__} <= {*dir(package)}
    for public in package.__all__:
        assert getattr(package, public) is not None


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    """As of any module."""
    package = import_module("celery_pecker.outbox")
    with pytest.raises(AttributeError, match="has no attribute 'Inbox'"):
        _ = package.Inbox
