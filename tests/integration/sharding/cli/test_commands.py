"""What people type, and what they get, on real tables."""

from __future__ import annotations

import json
import threading
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from celery_pecker.testing import eventually
from celery_sharding.cli import COMMANDS
from tests.command_line import Line
from tests.integration.sharding.reading.written import Written
from tests.proxy import Proxy


@pytest.fixture
def job(written: Written) -> int:
    """Give a job in its second layer, with a shard that runs and items that failed."""
    number = written.job("job-a", key="Upload-7", total=200, layers=2, layer=1)
    written.layer(
        number, 0, done=98, failed=2, open=0, shards=1, closed_at=written.ago(20)
    )
    written.layer(number, 1, shards=2, open=2, started_at=written.ago(20))
    written.shard(number, 0, status=301, cursor=100, done=98, failed=2)
    written.shard(
        number,
        1,
        1,
        status=202,
        ticket=1,
        epoch=7,
        cursor=40,
        hi=50,
        done=40,
        claimed_at=written.ago(12),
    )
    written.shard(number, 2, 1, hi=50)
    written.hold(number, 1)
    written.error(number, 0, 3, message="no such [bold]country\nsecond line")
    written.error(number, 0, 5, traceback='  File "x.py", line 3\nValueError: no')
    return number


def test_list_tells_how_jobs_stand(line: Line, written: Written, job: int) -> None:
    """The youngest first; those that ended are left out where that is asked."""
    assert job
    written.job("job-b", stage="ended", outcome="succeeded", total=10)
    told = line.json("list")["jobs"]
    assert [(row["task_id"], row["state"]) for row in told] == [
        ("job-b", "succeeded"),
        ("job-a", "running"),
    ]
    assert told[1]["percent"] == 70.0
    shown = line("list", "--open")
    assert "job-a" in shown.stdout
    assert "70.0%" in shown.stdout
    assert "job-b" not in shown.stdout
    assert len(line.json("list", "--search", "upload")["jobs"]) == 1
    assert "no such job" in line("list", "--search", "nothing").stdout


def test_show_tells_layers_codes_stragglers_and_errors(line: Line, job: int) -> None:
    """Names and messages as they are, whatever they contain."""
    assert job
    told = line.json("show", "job-a")
    assert told["shards"] == {"101": 1, "202": 1, "301": 1}
    assert [layer["done"] for layer in told["by_layer"]] == [98, 40]
    assert [row["shard"] for row in told["stragglers"]] == [1]
    assert told["errors"][0]["code"] == 302
    shown = line("show", "job-a")
    assert shown.exit_code == 0
    for words in (
        "layer 2 of 2: 1 of at most 4 shards run",
        "138 of 200 done, 2 failed",
        "running (202)",
        "a worker runs its items",
        "40 of 50",
        "ValueError: no such [bold]country",
    ):
        assert words in shown.stdout, words


def test_errors_are_told_line_by_line(line: Line, job: int) -> None:
    """With the item; with --json one document a line, so that a file may be read on."""
    assert job
    shown = line("errors", "job-a", "--traceback")
    assert '{"row": 3}' in shown.stdout
    assert "shard 0, item 5" in shown.stdout
    assert 'File "x.py", line 3' in shown.stdout
    assert "failed (302)  shard 0" in shown.stdout
    assert "2 failed" in shown.stderr
    lines = line("errors", "job-a", "--json").stdout.splitlines()
    assert [json.loads(one)["place"] for one in lines] == [3, 5]
    assert (
        len(line("errors", "job-a", "--json", "--limit", "1").stdout.splitlines()) == 1
    )


def test_errors_that_are_one_are_a_row(line: Line, written: Written, job: int) -> None:
    """With how many, shards, and what their items are run again by."""
    for place in range(20, 40):
        written.error(job, 0, place, message=f"no row {place}")
    [many, *others] = line.json("errors", "job-a", "--grouped")["groups"]
    assert (many["count"], len(others)) == (20, 2)
    shown = line("errors", "job-a", "--grouped", "--traceback")
    assert many["key"] in shown.stdout
    assert "ValueError: no row 39" in shown.stdout
    assert 'File "x.py", line 3' in shown.stdout
    assert "22 failed, 3 errors." in shown.stderr
    few = line("errors", "job-a", "--grouped", "--limit", "5")
    assert "Of the first 5 failed items." in few.stderr
    refused = line("retry", "job-a", "--error", many["key"])
    assert refused.exit_code == 1
    assert "sharding" in refused.stderr


def test_a_job_that_failed_in_planning_says_so(line: Line, written: Written) -> None:
    """Where it is listed, and where it is shown."""
    error = {"type": "OSError", "message": "no file"}
    given: dict[str, Any] = {"stage": "ended", "outcome": "failed", "total": 0}
    written.job("x", planned_at=None, error=error, **given)
    why = "before it had items, in planning: OSError: no file"
    assert line.json("list")["jobs"][0]["why"] == why
    assert why in line("show", "x").stdout


def test_watch_ends_with_the_job(
    line: Line, written: Written, job: int, dsn: str
) -> None:
    """A line for each per cent in a pipe; the exit code is the outcome."""
    seen: list[str] = []

    def finish() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            watching = (
                "select count(*) from pg_stat_activity"
                " where application_name = 'celery_sharding:cli' and state = 'idle'"
                " and query like '/* celery_sharding:list_layers %'"
            )
            eventually(lambda: connection.execute(watching).fetchone() == (1,), 30.0)
            seen.append("watched")
            connection.execute(
                "update pecker_jobs set stage = 'ended', outcome = 'succeeded',"
                " ended_at = clock_timestamp() where job = %s",
                [job],
            )

    thread = threading.Thread(target=finish)
    thread.start()
    shown = line("watch", "job-a", "--every", "0.1")
    thread.join(30.0)
    assert seen
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("running")
    assert "layer 2/2" in lines[0]
    assert "70.0%  140/200  2 failed" in lines[0]
    assert lines[-1].startswith("partly failed")
    assert len(lines) == 2, "without news there is no line"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"stage": "ended", "outcome": "succeeded"}, 0),
        ({"stage": "ended", "outcome": "failed"}, 1),
        ({"stage": "ended", "outcome": "cancelled"}, 1),
        ({"stage": "sharding"}, 3),
    ],
)
def test_watch_tells_the_outcome_by_its_exit_code(
    line: Line, written: Written, given: dict[str, Any], code: int
) -> None:
    """3: it had not ended in time, so nobody knows."""
    written.job("x", total=10, **given)
    shown = line("watch", "x", "--every", "0.1", "--timeout", "0.2")
    assert shown.exit_code == code
    told = line("watch", "x", "--every", "0.1", "--timeout", "0.2", "--json")
    assert told.exit_code == code
    assert json.loads(told.stdout.splitlines()[0])["stage"] == given["stage"]


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"list"}))
def test_an_unknown_job_is_refused_with_its_code(line: Line, command: str) -> None:
    """In one line, with exit code 1."""
    more = {"rerun": ["0"], "concurrency": ["3"]}.get(command, [])
    shown = line(command, "nope", *more)
    assert shown.exit_code == 1
    assert "k_sc_ec_000004" in shown.stderr
    assert "nope" in shown.stderr


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_server_that_never_answers_is_told_in_bounded_time(
    line: Line, command: str, dsn: str
) -> None:
    """Exit code 3: neither yes nor no."""
    given = conninfo_to_dict(dsn)
    with Proxy(str(given["host"]), int(str(given["port"]))) as proxy:
        proxy.hang()
        line.app.conf.pecker_dsn = make_conninfo(dsn, host="127.0.0.1", port=proxy.port)
        more = {"rerun": ["a", "0"], "concurrency": ["a", "3"], "list": []}
        shown = line(command, *more.get(command, ["a"]))
    assert shown.exit_code == 3
    assert "no answer" in shown.stderr
