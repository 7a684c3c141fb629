"""``pecker set``, ``once``, ``remove``, ``schedules``: on real tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.schedules import Schedules
from tests.command_line import Line

MakeLine = Callable[..., Line]
REPORT = ("report", "--task", "proj.report", "--crontab", "0 4 * * mon")


def stored(line: Line, name: str) -> dict[str, Any]:
    """Return one stored schedule as the list has it."""
    rows = {one["name"]: one for one in line.json("schedules")["schedules"]}
    found: dict[str, Any] = rows[name]
    return found


def test_a_schedule_is_made_changed_and_removed(line: Line) -> None:
    """What is not named stays; each edit raises the version and is kept."""
    made = line.json("set", *REPORT, "--args", "[1]", "--timeout", "30")
    assert (made["version"], made["schedule"]) == (1, {"crontab": "0 4 * * mon"})
    assert made["next_due"].endswith("Z")
    said = line("set", "report", "--every", "90")
    assert said.exit_code == 0
    assert said.stdout.startswith("'report' is at version 2: every 90 seconds\nnext: ")
    row = stored(line, "report")
    assert (row["task"], row["args"], row["policies"]) == (
        "proj.report",
        [1],
        {"timeout": 30},
    )
    assert "@" in row["changed_by"]
    line.json("set", "report", "--paused", "--options", '{"queue": "slow"}')
    row = stored(line, "report")
    assert (row["paused"], row["options"], row["next_due"]) == (
        True,
        {"queue": "slow"},
        None,
    )
    assert "paused" in line("set", "report", "--timeout", "").stdout
    assert stored(line, "report")["policies"] == {}
    assert line.json("remove", "report") == {"name": "report", "removed": True}
    assert line.json("schedules") == {"schedules": []}
    assert "no schedule is stored" in line("schedules").stdout
    changes = [
        one["change"] for one in line.json("schedules", "history", "report")["history"]
    ]
    assert changes[0] == "removed"
    assert changes[-1] == "created"
    shown = line("schedules", "history", "report").stdout
    assert 'schedule: {"crontab": "0 4 * * mon"} → {"every": 90}' in shown
    missing = line("remove", "report")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "no stored schedule is named 'report'" in missing.stderr


def test_a_schedule_is_renamed(line: Line) -> None:
    """With its history; what is refused is one line."""
    line.json("set", *REPORT, "--args", "[1]")
    row = line.json("rename", "report", "monthly", "--version", "1")
    assert (row["name"], row["version"], row["args"]) == ("monthly", 2, [1])
    assert line("rename", "monthly", "weekly").stdout.startswith(
        "'weekly' is at version 3: at 04:00, on Monday"
    )
    shown = line("schedules", "history", "weekly").stdout
    assert 'from "monthly"' in shown
    assert 'to "weekly"' in line("schedules", "history", "monthly").stdout
    for words, why in (
        (("rename", "report", "other"), "no stored schedule is named 'report'"),
        (("rename", "weekly", "weekly"), "another name than it has"),
        (("rename", "weekly", "x", "--version", "1"), "is at version 3"),
    ):
        refused = line(*words)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert why in refused.stderr


KINDS = [
    (("--every", "0.5"), {"every": 0.5}),
    (
        ("--cron", "*/10 * * * * *", "--zone", "Europe/Paris"),
        {"cron": "*/10 * * * * *", "zone": "Europe/Paris"},
    ),
    (
        ("--solar", "sunrise 48.85 2.35"),
        {"solar": "sunrise", "lat": 48.85, "lon": 2.35},
    ),
    (("--schedule", '{"every": 60, "jitter": 5}'), {"every": 60, "jitter": 5}),
    (("--every", "60", "--jitter", "5"), {"every": 60, "jitter": 5}),
]


@pytest.mark.parametrize(("words", "schedule"), KINDS)
def test_each_kind_of_schedule_can_be_typed(
    words: tuple[str, ...], schedule: dict[str, Any], line: Line
) -> None:
    """Each is stored as JSON that `--schedule` takes back."""
    made = line.json("set", "a", "--task", "proj.tick", *words)
    assert made["schedule"] == schedule
    back = line.json("set", "b", "--task", "t", "--schedule", json.dumps(schedule))
    assert back["schedule"] == schedule


def test_another_kind_takes_its_options_along(line: Line) -> None:
    """The zone of a cron is not one of the interval that follows it."""
    line.json(
        "set", "a", "--task", "t", "--cron", "0 4 * * *", "--zone", "Europe/Paris"
    )
    assert line.json("set", "a", "--every", "5")["schedule"] == {"every": 5}


def test_a_dry_run_shows_the_next_five_runs_and_stores_nothing(line: Line) -> None:
    """In words too; what is not allowed is refused there as well."""
    told = line.json("set", *REPORT, "--dry-run")
    runs = [datetime.fromisoformat(one) for one in told["runs"]]
    assert (told["what"], told["version"], len(runs)) == ("new", 0, 5)
    assert {b - a for a, b in pairwise(runs)} <= {
        timedelta(days=7),
        timedelta(days=7, hours=1),
        timedelta(days=6, hours=23),
    }
    shown = line("set", *REPORT, "--dry-run").stdout.splitlines()
    assert shown[0] == "at 04:00, on Monday"
    assert len(shown) == 6
    assert line.json("schedules") == {"schedules": []}
    refused = line("set", *REPORT, "--zone", "Europe/Pariss", "--dry-run")
    assert refused.exit_code == 1


def test_an_edit_of_an_old_version_is_refused_with_both(line: Line) -> None:
    """Nothing is written; 0 means that there must be none."""
    line.json("set", *REPORT)
    for words in (
        ("set", "report", "--every", "5", "--version", "7"),
        ("set", "report", "--every", "5", "--version", "0"),
        ("remove", "report", "--version", "7"),
    ):
        refused = line(*words)
        assert (refused.exit_code, refused.stdout) == (1, ""), words
        assert len(refused.stderr.splitlines()) == 1, words
        assert "version 1" in refused.stderr, words
        assert f"version {words[-1]}" in refused.stderr, words
    assert stored(line, "report")["version"] == 1


def test_an_edit_in_between_is_not_overwritten(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the command did not name it has read: somebody may have changed it since."""
    line.json("set", *REPORT)
    made = Schedules.set

    def second(schedules: Schedules, name: str, **fields: Any) -> Any:
        """Let somebody else be first, once."""
        monkeypatch.setattr(Schedules, "set", made)
        line.json("set", name, "--kwargs", '{"mine": 1}')
        return made(schedules, name, **fields)

    monkeypatch.setattr(Schedules, "set", second)
    refused = line("set", "report", "--every", "5")
    assert refused.exit_code == 1
    assert "version 2" in refused.stderr
    row = stored(line, "report")
    assert (row["kwargs"], row["schedule"]) == (
        {"mine": 1},
        {"crontab": "0 4 * * mon"},
    )


WRONG = [
    (("--every", "0.01"), "0.1"),
    (("--crontab", "0 0 30 2 *"), "comes"),
    (("--cron", "0 4 * * *", "--zone", "Mars/Olympus"), "Mars/Olympus"),
    (("--every", "5", "--kwargs", "{"), "JSON"),
    (("--every", "5", "--start", "2031-01-02", "--end", "2031-01-01"), "end"),
    (("--every", "5", "--misfire", "never"), "coalesce"),
    (("--schedule", '{"every": 5, "once": 1}'), "every"),
]


@pytest.mark.parametrize(("words", "said"), WRONG)
def test_what_is_wrong_is_one_line(
    words: tuple[str, ...], said: str, line: Line
) -> None:
    """It names what is allowed; nothing is written."""
    refused = line("set", "a", "--task", "t", *words)
    assert refused.exit_code == 1
    assert len(refused.stderr.splitlines()) == 1
    assert said in refused.stderr
    assert line.json("schedules") == {"schedules": []}


def test_what_is_not_understood_ends_with_2(line: Line) -> None:
    """Two kinds, none, or no task for a new one."""
    for words, said in (
        (("a", "--task", "t", "--every", "5", "--cron", "* * * * *"), "exclude"),
        (("a", "--task", "t"), "--every"),
        (("a", "--every", "5"), "--task"),
    ):
        refused = line("set", *words)
        assert refused.exit_code == 2, words
        assert said in refused.stderr, words


def test_names_of_code_and_tasks_that_are_not_allowed_are_refused(
    dsn: str, make_line: MakeLine
) -> None:
    """By the same validator as everywhere."""
    line = make_line(dsn, pecker_allowed_tasks=["proj.*"])
    refused = line("set", "tick", "--task", "proj.tick", "--every", "5")
    assert refused.exit_code == 1
    assert "'tick'" in refused.stderr
    refused = line("set", "a", "--task", "os.system", "--every", "5")
    assert refused.exit_code == 1
    assert "pecker_allowed_tasks" in refused.stderr
    refused = line("once", "os.system", "--at", "2031-01-01T12:00Z")
    assert refused.exit_code == 1


def test_one_run_is_stored(line: Line) -> None:
    """With a name of its own or one that is made; the past is refused."""
    at = (SYSTEM.now() + timedelta(hours=1)).replace(microsecond=0)
    made = line.json("once", "proj.tick", "--at", at.isoformat(), "--args", "[1]")
    assert made["name"]
    assert (made["once"], made["args"]) == (True, [1])
    assert datetime.fromisoformat(made["once_at"]) == at
    named = line("once", "proj.tick", "--at", at.isoformat(), "--name", "mine")
    assert named.stdout.startswith("'mine' is at version 1: ")
    twice = line("once", "proj.tick", "--at", at.isoformat(), "--name", "mine")
    assert twice.exit_code == 1
    past = line("once", "proj.tick", "--at", "2020-01-01T12:00Z")
    assert past.exit_code == 1
    torn = line("once", "proj.tick", "--at", at.isoformat(), "--kwargs", "{")
    assert torn.exit_code == 1
    assert "allowed is JSON" in torn.stderr


def test_a_task_that_nobody_has_is_named(line: Line) -> None:
    """It is stored all the same: the deploy that brings it may come later."""
    told = line("set", "odd", "--task", "celery.backend_cleanp", "--every", "60")
    assert told.exit_code == 0
    assert "has the task 'celery.backend_cleanp'" in told.stderr
    assert "did you mean 'celery.backend_cleanup'" in told.stderr
    known = line("once", "celery.backend_cleanup", "--at", "2031-01-01T12:00Z")
    assert known.exit_code == 0
    assert not known.stderr


def test_pauses_are_kept_in_the_history_of_any_entry(line: Line) -> None:
    """Who paused it, and when; a stored one, and one of code."""
    line.json("set", *REPORT)
    with line.replica():
        for name in ("report", "tick"):
            assert line("pause", name).exit_code == 0
            assert line("resume", name).exit_code == 0
            told = line.json("schedules", "history", name, "--limit", "2")["history"]
            assert [one["change"] for one in told] == ["resumed", "paused"]
            assert all("@" in one["changed_by"] for one in told)
    assert line("pause", "nobody").exit_code == 1


def test_the_list_is_searched_and_paged(line: Line, dsn: str) -> None:
    """By part of a name or task, by task, and from a name on."""
    schedules = Schedules(line.app)
    for nth in range(5):
        schedules.set(f"s{nth}", task=f"proj.t{nth % 2}", schedule=60)
    schedules.close()

    def names(*words: str) -> list[str]:
        return [one["name"] for one in line.json("schedules", *words)["schedules"]]

    assert names("--task", "proj.t1") == ["s1", "s3"]
    assert names("--search", "S2") == ["s2"]
    assert names("--limit", "2") == ["s0", "s1"]
    assert names("--limit", "2", "--after", "s3") == ["s4"]
    shown = line("schedules", "--limit", "2").stdout
    assert "--after 's1'" in shown
    assert "every minute" in shown
    assert line("schedules", "--after", "s4").stdout == "no more\n"
    assert line("schedules", "history", "nobody").exit_code == 1


def test_a_row_that_cannot_be_read_says_why(line: Line, dsn: str) -> None:
    """The others are shown beside it; it can be removed."""
    line.json("set", *REPORT)
    line.json("set", "well", "--task", "t", "--every", "5")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "update pecker_schedules set schedule = '{\"lunar\": 1}'"
            " where name = 'report'"
        )
    rows = {one["name"]: one["problem"] for one in line.json("schedules")["schedules"]}
    assert rows["well"] is None
    assert "cannot be read" in str(rows["report"])
    assert "cannot be read" in line("schedules").stdout
    refused = line("next", "report")
    assert refused.exit_code == 1
    assert line("remove", "report").exit_code == 0


def test_next_and_export_know_stored_schedules(line: Line) -> None:
    """As those of code; what ran last comes back by `import`."""
    line.json("set", *REPORT)
    told = line.json("next", "report", "-n", "3")
    assert told["words"] == "at 04:00, on Monday"
    slots = [
        datetime.fromisoformat(one).astimezone(line.app.timezone)
        for one in told["slots"]
    ]
    assert {(one.weekday(), one.hour) for one in slots} == {(0, 4)}
    line.json("set", "grid", "--task", "t", "--every", "3600")
    assert len(line.json("next", "grid")["slots"]) == 5
    assert {*line.json("export")} == {"report", "grid"}


def test_last_runs_of_stored_schedules_come_in_from_json(
    line: Line, tmp_path: Any
) -> None:
    """`import FILE` takes over what another database remembers of them."""
    line.json("set", "grid", "--task", "t", "--every", "3600")
    last = SYSTEM.now() - timedelta(minutes=50)
    path = tmp_path / "last.json"
    path.write_text(json.dumps({"grid": last.isoformat()}))
    assert line.json("import", str(path))["set"] == 1
    [slot] = line.json("next", "grid", "-n", "1")["slots"]
    assert datetime.fromisoformat(slot) == last + timedelta(hours=1)


@pytest.mark.parametrize(
    ("schedule", "policies"),
    [
        ('{"moon": 1}', "{}"),
        ('{"every": 60, "moon": 1}', '{"moon": 1}'),
        ("[]", "[1]"),
        ('{"rrule": "FREQ=DAILY"}', "7"),
    ],
)
def test_a_row_that_cannot_be_read_is_mended(
    line: Line, schedule: str, policies: str
) -> None:
    """By naming another schedule, as in the forms."""
    line.json("set", *REPORT)
    with psycopg.connect(line.app.conf.pecker_dsn) as connection:
        connection.execute(
            "update pecker_schedules set schedule = %s, policies = %s",
            (schedule, policies),
        )
    mended = line.json("set", "report", "--every", "60")
    assert mended["schedule"] == {"every": 60}
    assert (mended["policies"], mended["problem"]) == ({}, None)


def test_a_name_keeps_its_blanks_and_a_pause_stays(line: Line) -> None:
    """The entry that is read is the one that is changed."""
    line.json("set", " report ", *REPORT[1:], "--paused")
    changed = line.json("set", " report ", "--every", "60")
    assert (changed["name"], changed["version"]) == (" report ", 2)
    assert changed["paused"]


def test_a_dry_run_refuses_what_set_refuses(line: Line) -> None:
    """A name of the code, a version that is another one; and keeps nothing."""
    for words in (
        ("tick", "--task", "proj.tick", "--every", "5"),
        (*REPORT, "--version", "7"),
    ):
        said = line("set", *words)
        tried = line("set", *words, "--dry-run")
        assert (said.exit_code, tried.exit_code) == (1, 1), tried.output
        assert tried.stderr == said.stderr
    assert line.json("schedules") == {"schedules": []}
    assert line("schedules", "history", "report").exit_code == 1
