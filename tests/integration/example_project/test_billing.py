"""Calls that are ended and billed by tasks of an outbox, and what its report finds.

The act itself is played by `make demo`, which `make check` runs.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import psycopg
import pytest
from rich.console import Console

from example_project.billing import picture, tasks
from example_project.billing.play import Seen
from example_project.billing.story import failures, show
from example_project.billing.tasks import execute
from example_project.billing.trouble import Killed
from example_project.billing.watch import Count, Sight, Watch
from example_project.demo.__main__ import options
from example_project.processes import ProcessContainer

ROOT = Path(__file__).resolve().parents[3]
RECORDED = "select task from pecker_outbox order by id"
END, BILL = tasks.end_call.name, tasks.bill.name
Connection = psycopg.Connection[Any]


@pytest.fixture
def service(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """Give a connection to the service's tables, which the tasks use too."""
    monkeypatch.setattr(tasks, "SERVICE_DSN", dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        execute(connection, "billing_schema")
        execute(connection, "billing_begin", caller="caller", calls=3)
        yield connection


def recorded(connection: Connection) -> list[str]:
    """Return the tasks in the outbox."""
    return [task for (task,) in connection.execute(RECORDED)]


def count(connection: Connection) -> Count:
    """Return what stands in the tables."""
    return Watch(connection, lambda _: None).look()


def test_a_call_is_hung_up_with_the_task_that_ends_it(service: Connection) -> None:
    """Both are there after the commit; another caller's calls are left alone."""
    assert tasks.hang_up(service, "caller") == 1
    assert tasks.hang_up(service, "other") is None
    assert recorded(service) == [END]
    assert count(service)[:3] == (1, 0, 0)


def test_a_call_is_not_hung_up_if_its_task_is_not_recorded(
    service: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is there after a rollback."""

    def delay(_call: int) -> None:
        raise RuntimeError

    monkeypatch.setattr(tasks.end_call, "delay", delay)
    with pytest.raises(RuntimeError):
        tasks.hang_up(service, "caller")
    assert recorded(service) == []
    assert count(service).hung_up == 0


def test_a_call_is_ended_with_the_task_that_bills_it(service: Connection) -> None:
    """A second message of the same task records no second bill; it is counted."""
    tasks.hang_up(service, "caller")
    for _ in range(2):
        tasks.end_call.apply((1,), task_id="0c5f2f0e-7f3e-4f0a-9a51-2f4b1f2f8f11")
    assert recorded(service) == [END, BILL]
    assert count(service).ended == 1
    assert count(service).repeated == 1


def test_a_call_that_is_not_ended_is_not_billed(
    service: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is rolled back where the bill cannot be recorded."""

    def delay(_call: int) -> None:
        raise RuntimeError

    monkeypatch.setattr(tasks.bill, "delay", delay)
    assert tasks.end_call.apply((1,)).failed()
    assert recorded(service) == []
    assert count(service).ended == 0


def test_each_call_is_accounted_for(service: Connection) -> None:
    """One without a bill is lost, one that is billed twice is doubled."""
    for _ in range(3):
        tasks.hang_up(service, "caller")
    for call in (1, 2, 2):
        assert tasks.bill.apply((call,)).successful()
    account = count(service)
    assert (account.hung_up, account.billed) == (3, 2)
    assert (account.lost, account.doubled, account.repeated) == (1, 1, 0)
    assert account.waiting == len(recorded(service))


def test_what_a_caller_committed_is_there_after_its_kill(
    dsn: str, service: Connection
) -> None:
    """It dies in the line after the commit of its last call."""
    process = ProcessContainer(
        [
            *(sys.executable, "-m", "example_project.billing.caller"),
            *("caller", "--dies-after", "2"),
        ],
        name="caller",
        cwd=ROOT,
        env={"BILLING_DSN": dsn},
    )
    process.start()
    try:
        assert process.wait(60) == -signal.SIGKILL
    finally:
        process.remove()
    assert recorded(service) == [END, END]
    assert count(service).hung_up == 2


def seen() -> Seen:
    """Return an act without fault."""
    relay = ProcessContainer(["true"], name="relay-1")
    killed = Killed(relay=relay, batch=7, messages=3)
    return Seen(
        begun=300,
        callers=[-signal.SIGKILL] * 2,
        killed=killed,
        taken_over=4.0,
        away=True,
        waited=150,
        drained=2.5,
        last=Count(300, 300, 300, 0, 0, 0, 0),
    )


def test_the_report_shows_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    """Each loss, and what became of the calls."""
    assert failures(seen()) == []
    show(Console(width=100), seen())
    said = capsys.readouterr().out
    for words in ("300 billed, 0 lost, 0 doubled", "2 callers", "3 messages", "150"):
        assert words in said


def test_the_picture_shows_what_was_done_when() -> None:
    """A band for each trouble; it is drawn of a single look too."""
    last = seen().last
    assert last is not None
    sights = [Sight(at=float(at), count=last) for at in range(30)]
    marks = [("callers killed", 0.0, 2.0), ("broker stopped", 9.0, 19.0)]
    drawn = picture.draw(replace(seen(), sights=sights, marks=marks))
    ET.fromstring(drawn)  # noqa: S314  # ours
    for words in (
        "300 calls end, and are billed",
        "0 lost, 0 doubled",
        "broker stopped",
    ):
        assert words in drawn
    ET.fromstring(picture.draw(replace(seen(), sights=sights[:1])))  # noqa: S314


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"last": None}, "nothing was counted"),
        ({"last": Count(299, 299, 299, 0, 0, 0, 0)}, "299 of 300"),
        ({"last": Count(300, 299, 299, 1, 0, 0, 0)}, "not billed"),
        ({"last": Count(300, 300, 300, 0, 1, 0, 0)}, "billed twice"),
        ({"last": Count(300, 300, 300, 0, 0, 1, 0)}, "ran twice"),
        ({"callers": [-signal.SIGKILL, 0]}, "not by SIGKILL"),
        ({"killed": None}, "no relay"),
        ({"taken_over": None}, "no relay"),
        ({"waited": 0}, "nothing waited"),
    ],
)
def test_the_report_names_what_went_wrong(wrong: dict[str, Any], words: str) -> None:
    """Each of them fails the demo."""
    [failure] = failures(replace(seen(), **wrong))
    assert words in failure


def test_an_act_can_be_played_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """By its name; another name is refused, with those that are allowed."""
    assert options(["--act", "outbox"]).act == "outbox"
    assert options([]).act is None
    with pytest.raises(SystemExit):
        options(["--act", "tea"])
    assert "outbox" in capsys.readouterr().err
