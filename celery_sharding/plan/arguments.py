"""Sources among the arguments of a call, kept apart from what the arguments hold.

Arguments and items may come from anywhere, such as JSON that a stranger sent. So no
JSON in an argument means a Source. The JSON of a Source stands beside the arguments, in
a header of the message and in a field of the job's row, which only code that calls a
job writes. In the argument's own place stands a name for people to read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from celery_sharding.errors import Misconfigured
from celery_sharding.plan.data import from_stored, has_sources, stored

HEADER = "sharding_sources"
"""The header of a message that has the Sources of its arguments."""
NAMED = "__sharding_source__"
"""The one key of what stands in an argument's place: a text that describes it."""
SHOWN = 200
"""Characters of that text."""

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
Apart = list[list[Any]]
"""Each is ``[place, JSON]``. The place is the name of a keyword argument, or an index
from the end: what a chain passes on is put before the other arguments."""


def split(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Args, Kwargs, Apart]:
    """Return the arguments with names in place of Sources, and the Sources as JSON.

    An argument counts as a Source if it is one, or a list of layers with one in it.
    """
    plain, named = [*args], {**kwargs}
    apart: Apart = []
    for index, value in enumerate(args, -len(args)):
        if has_sources(value):
            apart.append([index, stored(value)])
            plain[index] = _name(value)
    for key, value in kwargs.items():
        if has_sources(value):
            apart.append([key, stored(value)])
            named[key] = _name(value)
    return tuple(plain), named, apart


def join(
    args: Sequence[Any], kwargs: Mapping[str, Any], apart: Sequence[Sequence[Any]]
) -> tuple[Args, Kwargs]:
    """Return the arguments with their Sources, as they were before `split`.

    Raises:
        Misconfigured: A Source has no name in its place.
    """
    plain, named = [*args], {**kwargs}
    for place, document in apart:
        inside = place in named if isinstance(place, str) else -len(plain) <= place < 0
        values: Any = named if isinstance(place, str) else plain
        if not inside or not _is_name(values[place]):
            raise Misconfigured(
                f"the header {HEADER} has a Source for argument {place!r}, where the"
                " call has none"
            )
        values[place] = from_stored(document)
    return tuple(plain), named


def check(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse names of Sources without the Sources: their header was lost."""
    for value in (*args, *kwargs.values()):
        if _is_name(value):
            raise Misconfigured(
                f"{value[NAMED]} stood in this call, and its header {HEADER} is lost:"
                " headers that are set later must keep those that are there"
            )


def _name(value: object) -> dict[str, str]:
    return {NAMED: f"{value!r:.{SHOWN}}"}


def _is_name(value: object) -> bool:
    return isinstance(value, Mapping) and value.keys() == {NAMED}
