"""Rules are checked at the edge: setting, value, and what is allowed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from celery_pecker.alarms.kinds import KINDS
from celery_pecker.alarms.model import Notice
from celery_pecker.alarms.rules import LOGGED, read_rules, read_targets
from celery_pecker.alarms.targets import to_log
from celery_pecker.kernel.errors import Misconfigured

TO = {"chat": "json://x", "duty": "proj:page"}


def refused(rules: Any, targets: Any = None) -> str:
    """Return what the refusal says."""
    with pytest.raises(Misconfigured) as caught:
        read_rules(rules, TO if targets is None else targets)
    return str(caught.value)


def test_a_kind_alone_is_a_rule() -> None:
    """Each has defaults, and goes to all targets."""
    rules = read_rules({kind: {} for kind in KINDS}, TO)
    assert [rule.kind for rule in rules] == [*KINDS.values()]
    assert {rule.to for rule in rules} == {("chat", "duty")}
    assert read_rules(None, None) == []


def test_terms_of_a_subject_are_those_of_the_first_pattern() -> None:
    """What they do not name is the rule's."""
    [rule] = read_rules(
        {
            "slow": {
                "when": "silent",
                "only": ["a*", "b"],
                "after": 5,
                "each": {"ab": {"after": 9}, "a*": {"mute": True}},
                "to": [],
            }
        },
        TO,
    )
    assert rule.to == ()
    terms = {name: rule.terms_of(name) for name in ("ab", "ac", "b", "c")}
    assert terms["ab"] is not None
    assert terms["ab"].after == 9.0
    assert terms["ab"].cooldown == rule.terms.cooldown
    assert terms["b"] == rule.terms
    assert (terms["ac"], terms["c"]) == (None, None)


@pytest.mark.parametrize(
    ("rules", "where", "allowed"),
    [
        ({"odd": {}}, "pecker_alarms['odd']['when'] is 'odd'", "silent, held"),
        ({"silent": []}, "pecker_alarms['silent'] is []", "a dict of options"),
        ({"": {}}, "pecker_alarms has the rule ''", "1 to 100 characters"),
        ({"silent": {"later": 1}}, "has the option 'later'", "when, only, each, to"),
        ({"silent": {"after": -1}}, "['after'] is -1", "seconds from 0 to 604800"),
        ({"silent": {"after": True}}, "['after'] is True", "seconds from 0"),
        ({"silent": {"within": 0}}, "['within'] is 0", "seconds from 1"),
        ({"silent": {"cooldown": "1 h"}}, "['cooldown'] is '1 h'", "seconds"),
        ({"silent": {"count": 0}}, "['count'] is 0", "a whole number 1 to"),
        ({"silent": {"recovery": 1}}, "['recovery'] is 1", "True or False"),
        ({"silent": {"only": "a*"}}, "['only'] is 'a*'", "a list of patterns"),
        ({"silent": {"to": ["mail"]}}, "['to'] names 'mail'", "'log', 'chat', 'duty'"),
        ({"silent": {"each": []}}, "['each'] is []", "a dict of options by pattern"),
        (
            {"silent": {"each": {"a": {"to": []}}}},
            "pecker_alarms['silent']['each']['a'] has the option 'to'",
            "after, count, within, cooldown, recovery, mute",
        ),
    ],
)
def test_what_cannot_be_is_refused(rules: Any, where: str, allowed: str) -> None:
    """With the setting, the value and what is allowed."""
    message = refused(rules)
    assert where in message
    assert allowed in message.partition("allowed: ")[2]


def test_targets_are_names_and_addresses() -> None:
    """An address is never shown: it may hold a password."""
    assert "has the name 'log'" in refused({}, {"log": "json://x"})
    message = refused({}, {"chat": ["json://user:secret@x"]})
    assert "pecker_alarms_to['chat'] is of type list" in message
    assert "secret" not in message
    assert read_targets(None) == {}


def test_a_notice_in_the_log_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A name or an error with line breaks would forge others; so would a title."""
    forged = "sweep\r\n2026-01-01 pecker: alarm recovered: \x1b[2Jall\u2028well"
    at = datetime(2026, 1, 1, tzinfo=UTC)
    notice = Notice(
        id=1,
        target="log",
        rule="silent",
        kind="silent",
        subject=forged,
        event="ringing",
        detail=forged,
        since=at,
        at=at,
    )
    to_log(notice)
    [line] = caplog.messages
    for text in (line, notice.title):
        assert text.isprintable()
        assert "sweep  2026-01-01" in text


def test_a_rule_that_is_none_is_taken_out() -> None:
    """Those that are there by themselves, too."""
    assert [one.name for one in read_rules(LOGGED, None)] == ["silent", "failing"]
    assert read_rules({**LOGGED, "silent": None, "failing": None}, None) == []
    assert {one.to for one in read_rules(LOGGED, {"duty": "a.b:c"})} == {()}
