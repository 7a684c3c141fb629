"""Settings of a package, declared once each, and read from an app's configuration.

A declaration is a field: its kind in the annotation, its default, and below it the
sentence that the reference page prints (docs/settings.py).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass
from datetime import datetime, tzinfo
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

from celery_pecker.kernel.errors import Misconfigured

LONGEST = 3_600
"""Seconds: no wait and no slack is longer."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What values a setting may have."""

    allowed: str
    """As a refusal and the reference page say it."""
    is_allowed: Callable[[Any], bool]
    convert: Callable[[str, Any], object] = lambda _, value: value
    """From key and value to what is read; may refuse on its own."""


def _is_text(value: object) -> bool:
    """Return whether a value is a text with something in it."""
    return isinstance(value, str) and bool(value) and "\0" not in value


def is_whole(value: object, least: int, most: float = math.inf) -> bool:
    """Return whether a value is a whole number from the least to the most."""
    return isinstance(value, int) and is_number(value, least, most)


def is_number(value: Any, least: float, most: float) -> bool:
    """Return whether a value is a number from the least to the most; no bool is."""
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_one and least <= value <= most


def moment_of(value: object, zone: tzinfo | None = None) -> datetime | None:
    """Return a datetime, or the one that a text means; None: it is neither.

    ``zone``: whose clocks it goes by if it names none; None: it stays naive.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo or zone is None else value.replace(tzinfo=zone)


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can hold a text: no NUL, no half of a pair."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return "\0" not in text


def between(
    least: float,
    most: float,
    allowed: str,
    is_one: Callable[[Any, Any, Any], bool] = is_whole,
) -> Kind:
    """Return the kind of numbers from the least to the most."""
    return Kind(allowed, lambda value: is_one(value, least, most))


def whole(least: int, most: int) -> Kind:
    """Return the kind of whole numbers from the least to the most."""
    return between(least, most, f"a whole number from {least} to {most}")


def _seconds(least: float, said: str) -> Kind:
    allowed = f"a number of seconds {said} zero to {LONGEST}"
    return between(least, LONGEST, allowed, is_number)


TEXT = Kind("a non-empty string", _is_text)
SWITCH = Kind("True or False", lambda value: isinstance(value, bool))
Switch = Annotated[bool, SWITCH]
Seconds = Annotated[float, _seconds(0, "from")]
PositiveSeconds = Annotated[float, _seconds(math.ulp(0.0), "above")]


def _refusal(wrong: str, name: str, known: Iterable[str]) -> str:
    """Return what is wrong, and the names that are close, else all that there are."""
    meant = suggestion(name, known, cutoff=0.75)
    return wrong + (meant or f"; allowed are {', '.join(sorted(known))}")


@cache
def former() -> Mapping[str, str]:
    """Return what became of settings that there once were, by their names."""
    text = Path(__file__).with_name("renamed_settings.txt").read_text(encoding="utf-8")
    lines = [one for one in text.splitlines() if not one.startswith("#")]
    return dict(one.split(" ", 1) for one in lines)


def _renamed(key: str, name: str) -> str | None:
    """Return what became of a setting that there once was, under the key as written."""
    return f"{key} {former()[name]}" if name in former() else None


def refuse_misspelt(conf: Mapping[str, object]) -> None:
    """Refuse names that no loaded package declares: `celery` loads all of them.

    Raises:
        Misconfigured: with the setting and what is allowed.

    """
    for package in Declared.__subclasses__():
        try:
            package.given(conf)
        except package.REFUSAL as error:
            raise Misconfigured(str(error)) from error


class Declared:
    """Base of a frozen dataclass whose fields are the settings of a package."""

    __slots__ = ()
    PREFIX: ClassVar[str]
    PACKAGE: ClassVar[str]
    REFUSAL: ClassVar[type[Exception]] = Misconfigured
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @classmethod
    def given(cls, conf: Mapping[str, object]) -> dict[str, Any]:
        """Return values by names, unchecked; refuse names that are not declared."""
        known = {cls.PREFIX + name: name for name in cls.__dataclass_fields__}
        for key, name in cls._written(conf):
            if name not in known:
                wrong = f"{key} is not a setting of {cls.PACKAGE}"
                raise cls.REFUSAL(_renamed(key, name) or _refusal(wrong, name, known))
        values = {name: conf.get(key) for key, name in known.items()}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    @cache
    def kinds(cls) -> dict[str, Kind]:
        """Return the kind of each setting that has one."""
        hints = get_type_hints(cls, include_extras=True).items()
        return {
            name: hint.__metadata__[0]
            for name, hint in hints
            if hasattr(hint, "__metadata__")
        }

    @classmethod
    def checked(cls, values: Mapping[str, object]) -> dict[str, Any]:
        """Return values as their kinds read them, each checked."""
        read = {}
        declared = cls.kinds()
        for name, value in values.items():
            kind = declared.get(name)
            if kind and not kind.is_allowed(value):
                is_secret = not cls.__dataclass_fields__[name].repr
                shown = type(value).__name__ if is_secret else repr(value)
                raise cls.REFUSAL(
                    f"{cls.PREFIX}{name} must be {kind.allowed}, not {shown}"
                )
            read[name] = kind.convert(cls.PREFIX + name, value) if kind else value
        return read

    @classmethod
    def is_mentioned(cls, conf: Mapping[str, object]) -> bool:
        """Return whether a configuration has one of ours, rightly spelt or not."""
        return any(conf.get(key) is not None for key, _ in cls._written(conf))

    @classmethod
    def put(cls, conf: Any, settings: Mapping[str, object], caller: str) -> None:
        """Add arguments of a caller, named without the prefix, to a configuration."""
        for name in settings:
            if name not in (known := cls.__dataclass_fields__):
                wrong = f"{caller} has no setting {name!r}"
                was = _renamed(name, cls.PREFIX + name)
                raise cls.REFUSAL(was or _refusal(wrong, name, known))
        conf.update({cls.PREFIX + name: value for name, value in settings.items()})

    @classmethod
    def _written(cls, conf: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        """Yield each of our settings as it was written, and its lower-case name."""
        # An app's configuration that was not read yet shows its prefix in `data` only.
        namespace = getattr(getattr(conf, "data", conf), "prefix", None) or ""
        for key in conf:
            # Under a namespace Celery lists keys as written: CELERY_PECKER_DSN
            named = key.removeprefix(namespace) if namespace else key
            name = named.lower() if named != key else named
            if name.startswith(cls.PREFIX):
                yield key, name


def suggestion(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> str:
    """Return "; did you mean 'x'?" with at most three known names, or "".

    ``cutoff``: how like they must be; higher where all names begin alike.
    """
    close = get_close_matches(name, {*known}, n=3, cutoff=cutoff)
    return f"; did you mean {', '.join(map(repr, close))}?" if close else ""
