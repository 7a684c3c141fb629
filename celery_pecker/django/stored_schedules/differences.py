"""What differs between two definitions of a schedule, field by field. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

NOTHING: tuple[object, ...] = ("", None, False, [], {})


class Difference(NamedTuple):
    """One field."""

    field: str
    before: str
    after: str


def differences(
    before: Mapping[str, object], after: Mapping[str, object]
) -> list[Difference]:
    """Return the fields that differ, in the order of the second; "" is nothing."""
    names = [*after, *(name for name in before if name not in after)]
    pairs = ((name, text(before.get(name)), text(after.get(name))) for name in names)
    return [Difference(*one) for one in pairs if one[1] != one[2]]


def text(value: object) -> str:
    """Return a value as people read it."""
    if isinstance(value, str):
        return value
    return "" if value in NOTHING else json.dumps(value, ensure_ascii=False)
