"""Each public error and each setting has a test that names it."""

from __future__ import annotations

import re
from dataclasses import fields as dataclass_fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from celery_pecker.kernel import errors, settings
from celery_sharding import errors as sharding_errors
from celery_sharding import settings as sharding_settings
from throttle import errors as throttle_errors
from throttle import settings as throttle_settings

TESTS = Path(__file__).parents[1]
FOLDERS = ("unit", "property", "contract", "integration", "chaos", "plans")
LISTS = {Path(__file__).name, "test_errors.py", "test_settings.py"}
"""Modules that name all of them, and show of none what it is for."""

CLASSES: dict[Any, Any] = {
    settings: settings.Settings,
    sharding_settings: sharding_settings.ShardingSettings,
    throttle_settings: throttle_settings.Settings,
}
BASES = {"ShardingError", "ThrottleError"}
"""Raised by their subclasses alone."""


@cache
def corpus() -> str:
    """Return the text of all tests that show what something does."""
    return "\n".join(
        path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in (TESTS / folder).rglob("*.py")
        if path.name not in LISTS
    )


def named(name: str, prefix: str = "") -> bool:
    """Return whether a test has it: a name, an argument, or a key."""
    whole = rf"\b{prefix}{name}\b" if prefix else rf"\b{name}\b"
    field = rf"\b{name}=|[\"']{name}[\"']:|\.{name}\b" if prefix else whole
    return re.search(rf"{whole}|{field}", corpus()) is not None


@pytest.mark.parametrize("module", [errors, sharding_errors, throttle_errors])
def test_each_error_is_named_by_a_test(module: ModuleType) -> None:
    """Somebody has seen it raised."""
    known = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    }
    assert known
    assert sorted(one for one in known - BASES if not named(one)) == []


@pytest.mark.parametrize("module", CLASSES)
def test_each_setting_is_named_by_a_test(module: ModuleType) -> None:
    """Somebody has seen what it changes; that it is read and checked is not enough."""
    fields = {one.name for one in dataclass_fields(CLASSES[module])}
    assert sorted(one for one in fields if not named(one, module.PREFIX)) == []


def test_the_rule_sees_what_it_should() -> None:
    """It is no rule if it finds nothing."""
    assert not named("NoSuchError")
    assert not named("setting_of_nothing", "pecker_")
