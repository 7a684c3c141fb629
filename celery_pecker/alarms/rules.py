"""Rules as settings give them, checked at the edge (I11). Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from celery_pecker.alarms.kinds import KINDS, Rule, Terms
from celery_pecker.alarms.model import LOG
from celery_pecker.kernel.declared import TEXT, is_number, is_whole
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

TERMS = ("after", "count", "within", "cooldown", "recovery", "mute")
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
        storm=_count(where, "storm", options, STORM),
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
    return Terms(
        after=_seconds(where, "after", options, usual.after),
        count=_count(where, "count", options, usual.count),
        within=_seconds(where, "within", options, usual.within, least=1.0),
        cooldown=_seconds(where, "cooldown", options, usual.cooldown),
        recovery=_switch(where, "recovery", options, usual=usual.recovery),
        mute=_switch(where, "mute", options, usual=usual.mute),
    )


def _count(where: str, name: str, options: Mapping[str, Any], usual: int) -> int:
    count: int = options.get(name, usual)
    if not is_whole(count, 1, MOST):
        _refuse(f"{where}[{name!r}]", f"is {count!r}", f"a whole number 1 to {MOST:,}")
    return count


def _seconds(
    where: str,
    name: str,
    options: Mapping[str, Any],
    usual: float,
    *,
    least: float = 0.0,
) -> float:
    value = options.get(name, usual)
    if not is_number(value, least, LONGEST):
        allowed = f"a number of seconds from {least:g} to {LONGEST:g} (a week)"
        _refuse(f"{where}[{name!r}]", f"is {value!r}", allowed)
    return float(value)


def _switch(where: str, name: str, options: Mapping[str, Any], *, usual: bool) -> bool:
    value = options.get(name, usual)
    if not isinstance(value, bool):
        _refuse(f"{where}[{name!r}]", f"is {value!r}", "True or False")
    return value


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
    message = f"{where} {what}; allowed: {allowed}"
    raise Misconfigured(message)
