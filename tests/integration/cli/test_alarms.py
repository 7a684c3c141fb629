"""``pecker alarms`` says what rings, and its exit code too; a trial reaches targets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from celery_pecker.kernel.audit import current_user
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
    assert "tock" in line("alarms", "--state", "recovered").stdout
    assert "tick" not in line("alarms", "--subject", "nothing").stdout.split("by 1")[1]
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


def test_each_act_is_a_command_and_stands_in_the_audit(line: Line, dsn: str) -> None:
    """Who takes it is named by the list and by Now; what is refused ends with 1."""
    with psycopg.connect(dsn) as connection:
        connection.execute(RINGS)
        connection.execute(
            "update pecker_alarms set taken_by = 'ann', taken_at = now()"
        )
    about = ("silent", "tick [bold]")
    done = line("alarms", "take", *about)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: ann has it since ")
    for words in (
        ("give-back", *about),
        ("take", *about, "--note", "looking"),
        ("snooze", *about, "--until", "2h"),
    ):
        assert line("alarms", *words).exit_code == 0
    done = line("alarms")
    assert done.exit_code == 0  # what is snoozed is there, and rings for nobody
    by = current_user()
    assert f"{by} has it: looking; snoozed for 120 min" in done.stdout
    assert line.json("alarms", "unmute", *about)["act"] == "unmute"
    assert line("alarms").exit_code == 1
    done = line("alarms", "snooze", *about, "--until", "soon")
    assert "until 'soon': allowed are 30m, 8h, 2d" in done.stderr
    acts = line.json("audit", "--limit", "1000")["acts"]
    assert [(one["act"], one["state"]) for one in reversed(acts)] == [
        ("alarms take", "failed"),
        ("alarms give-back", "done"),
        ("alarms take", "done"),
        ("alarms snooze", "done"),
        ("alarms unmute", "done"),
        ("alarms snooze", "failed"),
    ]
    assert {one["subject"] for one in acts} == {"silent, tick [bold]"}
    assert {one["done_by"] for one in acts} == {by}


def test_now_says_who_has_it(line: Line, dsn: str) -> None:
    """Beside what an alarm of that kind rings for."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            RINGS.replace("'silent', 'ringing'", "'job_failed', 'ringing'")
        )
        connection.execute(
            "update pecker_alarms set taken_by = 'ann', note = 'known'"
            " where subject = %s",
            ["tick [bold]"],
        )
        connection.execute(
            "insert into pecker_jobs (task_id, task, stage, outcome, concurrency,"
            " options, call, continuation, submitted_at, ended_at) values"
            " ('id', 't', 'ended', 'failed', 1, '{}', '', '{}', now(), now())"
        )
    found = {one["check"]: one["text"] for one in line.json("now", code=1)["causes"]}
    assert found["jobs failed"].endswith("; ann has tick [bold]: known")
