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


ARGUMENT_KEY_OR_ATTRIBUTE = re.compile(r"\b(\w+)=|[\"'](\w+)[\"']:|\.(\w+)")


@cache
def words() -> tuple[set[str], set[str]]:
    """Return all words of the tests that show what something does, and those of fields.

    The second are names of arguments, keys and attributes.
    """
    every: set[str] = set()
    fields: set[str] = set()
    for folder in FOLDERS:
        for path in (TESTS / folder).rglob("*.py"):
            if path.name not in LISTS:
                text = path.read_text(encoding="utf-8")
                every.update(re.findall(r"\w+", text))
                for names in ARGUMENT_KEY_OR_ATTRIBUTE.findall(text):
                    fields.update(names)
    return every, fields


def named(name: str, prefix: str = "") -> bool:
    """Return whether a test has it: a name; of a setting also its field."""
    every, fields = words()
    return prefix + name in every or (bool(prefix) and name in fields)


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
