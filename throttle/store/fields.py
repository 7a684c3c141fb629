"""Reads what came over the wire, field by field: pure, and nothing is believed.

An error names the field, so that the author of a client in another language finds it.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from throttle.errors import ThrottleError
from throttle.limits import LONGEST_NAME
from throttle.model import Amount

Value = TypeVar("Value")

MOST = 10_000
"""Databases in a document, samples of a database, tenants of a holder."""
LONGEST = 200
"""Characters of a holder's id and name, and of a tenant's."""
SIZE = 3
"""Numbers of an amount: operations, seconds, rows."""
LARGEST = 1e15
"""Above it a float no longer counts by ones."""


class Malformed(ThrottleError, ValueError):
    """A document is not in the form of the wire."""


def wrong(field: str, allowed: str, value: object) -> NoReturn:
    """Return an error that names the field, and at most a line of its value."""
    shown = repr(value)
    raise Malformed(f"{field} must be {allowed}, not {shown[:80]}")


def document(body: bytes | str) -> Mapping[str, Any]:
    """Return the JSON object that a body is."""
    try:
        parsed = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the body is no JSON: {error}") from error
    return mapping("the body", parsed)


def _no_number(name: str) -> NoReturn:
    wrong("a number", "finite", name)


def mapping(field: str, value: object, *, most: int = MOST) -> Mapping[str, Any]:
    """Return an object with not too many keys."""
    if not isinstance(value, dict) or len(value) > most:
        wrong(field, f"an object of at most {most} keys", value)
    return value


def text(field: str, value: object, *, empty: bool = False) -> str:
    """Return a short string."""
    if (
        not isinstance(value, str)
        or not (value or empty)
        or len(value) > LONGEST
        or "\0" in value
        or not _encodes(value)
    ):
        wrong(field, f"a string of 1 to {LONGEST} characters", value)
    return value


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a pair: JSON can say it, Redis cannot
        return False
    return True


def database(field: str, value: object) -> str:
    """Return a name that can stand in a key, as `throttle_limits` wants it."""
    name = text(field, value)
    if len(name.encode()) > LONGEST_NAME or any(one in name for one in "{}:"):
        wrong(
            field,
            f"a database's name of 1 to {LONGEST_NAME} bytes without '{{', '}}', ':'",
            value,
        )
    return name


def number(field: str, value: object, *, most: float = LARGEST) -> float:
    """Return a finite number from zero up."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not 0 <= value <= most
    ):
        wrong(field, f"a number from 0 to {most:g}", value)
    return value


def whole(field: str, value: object) -> int:
    """Return a whole number from zero up."""
    parsed = number(field, value)
    if parsed != int(parsed):
        wrong(field, "a whole number", value)
    return int(parsed)


def listed(field: str, value: object, size: int | None = None) -> Sequence[Any]:
    """Return a list that is not too long, or of exactly that size."""
    if not isinstance(value, list) or len(value) > MOST:
        wrong(field, f"a list of at most {MOST}", value)
    if size is not None and len(value) != size:
        wrong(field, f"a list of {size}", value)
    return value


def amount(field: str, value: object) -> Amount:
    """Return what [operations, seconds, rows] says."""
    return Amount(*(number(field, part) for part in listed(field, value, SIZE)))


def bound(field: str, value: object) -> Amount:
    """Return a limit: null is without bound."""
    return Amount(
        *(
            math.inf if part is None else number(field, part)
            for part in listed(field, value, SIZE)
        )
    )


def amount_out(value: Amount) -> list[float | None]:
    """Return an amount as the wire has it."""
    return [part if math.isfinite(part) else None for part in value]


def each(
    field: str, value: object, read: Callable[[str, object], Value]
) -> dict[str, Value]:
    """Return an object whose values are all read in one way."""
    return {
        key: read(f"{field}.{key}", one) for key, one in mapping(field, value).items()
    }
