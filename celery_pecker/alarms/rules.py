"""Rules as settings give them, checked at the edge (I11). Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from celery_pecker.alarms.kinds import KINDS, Rule, Terms
from celery_pecker.alarms.model import LOG
from celery_pecker.kernel.declared import SWITCH, TEXT, Kind, between, is_number
from celery_pecker.kernel.errors import Misconfigured

SETTING, TARGETS = "pecker_alarms", "pecker_alarms_to"
LONGEST = 604_800.0
"""Seconds: no threshold, window or cool-down is longer than a week."""
MOST = 1_000_000
LONGEST_NAME = 100
STORM = 10
LOGGED: Mapping[str, Any] = {"silent": {"to": ()}, "failing": {"to": ()}}
"""Rules that are there without any setting, for the log alone. One of the settings that
has the name of one replaces it; None takes it out."""


def _seconds(least: float) -> Kind:
    allowed = f"a number of seconds from {least:g} to {LONGEST:g} (a week)"
    return between(least, LONGEST, allowed, is_number)


COUNT = between(1, MOST, f"a whole number 1 to {MOST:,}")
KIND_OF = {
    "after": _seconds(0.0),
    "count": COUNT,
    "within": _seconds(1.0),
    "cooldown": _seconds(0.0),
    "recovery": SWITCH,
    "mute": SWITCH,
    "storm": COUNT,
}
TERMS = [name for name in KIND_OF if name != "storm"]
OPTIONS = ("when", "only", "each", "to", "storm", "severity", *TERMS[:-1])
SEVERITIES = ("critical", "warning")


def read_rules(
    rules: Mapping[str, Any] | None, targets: Mapping[str, str] | None
) -> list[Rule]:
    """Return the rules of ``pecker_alarms``; one that is None is none.

    Raises:
        Misconfigured: with the setting, the value and what is allowed.

    """
    names = [LOG, *read_targets(targets)]
    return [
        _rule(name, options, names)
        for name, options in (rules or {}).items()
        if options is not None
    ]


def read_targets(targets: Mapping[str, str] | None) -> dict[str, str]:
    """Return the targets of ``pecker_alarms_to``: an address for each name."""
    for name, address in (targets or {}).items():
        if not _is_name(name) or name == LOG:
            _refuse(TARGETS, f"has the name {name!r}", f"a short text, and not {LOG!r}")
        if not TEXT.is_allowed(address):
            # What it is stays out of the message: addresses hold passwords.
            _refuse(
                f"{TARGETS}[{name!r}]",
                f"is of type {type(address).__name__}",
                "an Apprise URL or the dotted path of a callable",
            )
    return dict(targets or {})


def _rule(name: str, options: Any, targets: Sequence[str]) -> Rule:
    where = f"{SETTING}[{name!r}]"
    if not _is_name(name):
        _refuse(SETTING, f"has the rule {name!r}", "a name of 1 to 100 characters")
    if not isinstance(options, Mapping):
        _refuse(where, f"is {options!r}", "a dict of options, {} for the defaults")
    for option in options:
        if option not in OPTIONS:
            _refuse(where, f"has the option {option!r}", ", ".join(OPTIONS))
    when = options.get("when", name)
    if when not in [*KINDS]:
        _refuse(f"{where}['when']", f"is {when!r}", ", ".join(KINDS))
    kind = KINDS[when]
    terms = _terms(where, options, kind.terms)
    severity = options.get("severity", kind.severity)
    if severity not in SEVERITIES:
        _refuse(f"{where}['severity']", f"is {severity!r}", " or ".join(SEVERITIES))
    each = options.get("each", {})
    if not isinstance(each, Mapping):
        _refuse(f"{where}['each']", f"is {each!r}", "a dict of options by pattern")
    return Rule(
        name=name,
        kind=kind,
        terms=terms,
        only=_texts(f"{where}['only']", options.get("only", ("*",)), "patterns"),
        each=tuple(_each(where, pattern, own, terms) for pattern, own in each.items()),
        to=_to(where, options.get("to"), targets),
        storm=_value(where, "storm", options, STORM),
        severity=severity,
    )


def _each(where: str, pattern: Any, own: Any, usual: Terms) -> tuple[str, Terms]:
    where = f"{where}['each'][{pattern!r}]"
    if not isinstance(pattern, str) or not pattern:
        _refuse(where, "is no pattern", "the name of a subject, or a pattern with *")
    if not isinstance(own, Mapping):
        _refuse(where, f"is {own!r}", f"a dict of {', '.join(TERMS)}")
    for option in own:
        if option not in TERMS:
            _refuse(where, f"has the option {option!r}", ", ".join(TERMS))
    return pattern, _terms(where, own, usual)


def _terms(where: str, options: Mapping[str, Any], usual: Terms) -> Terms:
    values = {
        name: _value(where, name, options, getattr(usual, name)) for name in TERMS
    }
    return Terms(**values)


def _value(where: str, name: str, options: Mapping[str, Any], usual: Any) -> Any:
    value, kind = options.get(name, usual), KIND_OF[name]
    if not kind.is_allowed(value):
        _refuse(f"{where}[{name!r}]", f"is {value!r}", kind.allowed)
    return float(value) if isinstance(usual, float) else value


def _to(where: str, value: Any, targets: Sequence[str]) -> tuple[str, ...]:
    """Return the targets beside the log; by default all that there are."""
    if value is None:
        return tuple(name for name in targets if name != LOG)
    names = _texts(f"{where}['to']", value, f"names of {TARGETS}", least=0)
    for name in names:
        if name not in targets:
            allowed = ", ".join(map(repr, targets))
            _refuse(f"{where}['to']", f"names {name!r}", f"{allowed} ({TARGETS})")
    return tuple(dict.fromkeys(name for name in names if name != LOG))


def _texts(where: str, value: Any, what: str, *, least: int = 1) -> tuple[str, ...]:
    if (
        not isinstance(value, (list, tuple))
        or len(value) < least
        or not all(isinstance(one, str) and one for one in value)
    ):
        _refuse(where, f"is {value!r}", f"a list of {what}")
    return tuple(value)


def _is_name(name: Any) -> bool:
    return (
        isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable()
    )


def _refuse(where: str, what: str, allowed: str) -> NoReturn:
    raise Misconfigured(f"{where} {what}; allowed: {allowed}")
