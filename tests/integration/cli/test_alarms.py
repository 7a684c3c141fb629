"""``pecker alarms`` says what rings, and its exit code too; a trial reaches targets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.command_line import Line

RULES: dict[str, dict[str, object]] = {"silent": {}}
RINGS = """
    insert into pecker_alarm_rules (rule, due_at, looked_at, epoch)
    values ('silent', now(), now(), 1);
    insert into pecker_alarms (rule, subject, kind, state, detail, since, seen_at,
        rang_at, recovered_at, noticed)
    values ('silent', 'tick [bold]', 'silent', 'ringing', 'no slot of it was won',
            now() - interval '1 h', now(), now(), null, true),
        ('silent', 'tock', 'silent', 'recovered', 'no slot of it was won',
            now() - interval '1 h', now(), now(), now(), false);
    insert into pecker_alarm_notices (target, rule, subject, kind, event, detail,
        since, at, held_until)
    values ('chat', 'silent', 'tick [bold]', 'silent', 'ringing', 'd', now(), now(),
        now());
    insert into pecker_alarm_targets (target, failures, failing_since, last_error)
    values ('chat', 3, now() - interval '1 min', 'ConnectionError: away')
"""


@pytest.fixture
def line(make_line: Callable[..., Line], dsn: str) -> Line:
    """Give the command line of an app with alarms."""
    return make_line(
        dsn,
        pecker_alarms=RULES,
        pecker_alarms_to={"duty": "tests.integration.cli.alarm_targets:page"},
    )


def test_what_rings_is_shown_and_ends_with_1(line: Line, dsn: str) -> None:
    """With the targets that do not have it yet, and those that fail."""
    done = line("alarms")
    assert done.exit_code == 0
    assert "no rule is looked at: no scheduler runs" in done.stdout
    with psycopg.connect(dsn) as connection:
        connection.execute(RINGS)
    done = line("alarms")
    assert done.exit_code == 1
    assert "Ringing          1, by 1 rule\n" in done.stdout
    for word in ("tick [bold]", "no slot of it was won", "chat", "away"):
        assert word in done.stdout
    assert "tock" not in done.stdout
    assert "tock" in line("alarms", "--all").stdout
    told = line.json("alarms", code=1)
    assert [one["subject"] for one in told["alarms"]] == ["tick [bold]"]
    assert told["alarms"][0]["waiting"] == ["chat"]
    assert told["targets"][0]["last_error"] == "ConnectionError: away"
    assert told["rules"][0]["ringing"] == 1


def test_a_trial_goes_to_each_target_at_once(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not take it is named, and ends with 1."""
    monkeypatch.setenv("PECKER_TEST_PAGED", str(tmp_path / "paged"))
    assert line.json("alarms", "test") == {"targets": {"log": None, "duty": None}}
    assert (tmp_path / "paged").read_text() == "trial proj\n"
    monkeypatch.setenv("PECKER_TEST_PAGED", str(tmp_path / "none" / "paged"))
    done = line("alarms", "test", "--to", "duty")
    assert done.exit_code == 1
    assert "duty: FileNotFoundError" in done.stdout
    done = line("alarms", "test", "--to", "mail")
    assert done.exit_code == 1
    assert "--to 'mail': there are 'duty', 'log'" in done.stderr


def test_a_rule_that_is_wrong_is_refused(
    make_line: Callable[..., Line], dsn: str
) -> None:
    """By the trial too, in one line."""
    done = make_line(dsn, pecker_alarms={"odd": {}})("alarms", "test")
    assert done.exit_code == 1
    assert "pecker_alarms['odd']['when'] is 'odd'; allowed: silent," in done.stderr
