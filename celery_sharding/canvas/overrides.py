"""Options of a job, from where it is declared or where it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from celery_sharding.errors import Misconfigured
from celery_sharding.model import Cut, Options, Placement
from celery_sharding.policies import KINDS, as_json, check

NAMES = frozenset(one.name for one in fields(Options))
CHOICES = {"cut": Cut, "placement": Placement}


def applied(options: Options, changes: Mapping[str, Any]) -> Options:
    """Return the options with the changes, checked.

    Policies and choices may be as JSON has them.
    """
    unknown = sorted(changes.keys() - NAMES)
    if unknown:
        message = (
            f"sharded jobs have no option {unknown[0]!r}; allowed are"
            f" {', '.join(sorted(NAMES))}"
        )
        raise Misconfigured(message)
    return check(
        replace(options, **{key: _read(key, it) for key, it in changes.items()})
    )


def changes_as_json(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked options as JSON, only those that change."""
    complete = as_json(applied(Options(), changes))
    return {key: complete[key] for key in changes}


def difference(options: Options, chosen: Options) -> dict[str, Any]:
    """Return what `applied` makes of the one to get the other, as JSON."""
    before = as_json(options)
    return {key: it for key, it in as_json(chosen).items() if it != before[key]}


def _read(key: str, value: Any) -> Any:
    if key == "size" and isinstance(value, list):
        return tuple(value)
    if key == "size" and isinstance(value, int) and not isinstance(value, bool):
        return (1, value)
    if key in CHOICES:
        return _chosen(key, value)
    if key == "on_error" and isinstance(value, Mapping):
        policy = dict(value)
        return KINDS[policy.pop("kind")](**policy)
    return value


def _chosen(key: str, value: Any) -> Any:
    kind = CHOICES[key]
    try:
        return kind(value)
    except ValueError as error:
        allowed = " or ".join(repr(one.value) for one in kind)
        message = f"{key} must be {allowed}, not {value!r}"
        raise Misconfigured(message) from error
