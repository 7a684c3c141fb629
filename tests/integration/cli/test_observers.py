"""``pecker observers``: hosts, observers, and what people do to them."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import psycopg
import pytest
from rich.console import Console

from celery_pecker.observers import Observers
from celery_pecker.surfaces.cli.context import Context
from celery_pecker.surfaces.cli.observers import bar
from celery_pecker.surfaces.views.model import HIDDEN
from celery_pecker.testing import eventually
from tests.command_line import Line
from tests.integration.cli.observer_rows import LONG, statuses, write_observers

MakeLine = Callable[..., Line]


@pytest.fixture
def ids(dsn: str) -> dict[str, str]:
    """Leave hosts and observers; give the ids of the hosts."""
    return write_observers(dsn)


def test_hosts_have_bars_and_what_needs_a_look_stands_first(
    ids: dict[str, str], line: Line
) -> None:
    """Who runs where; parked ones with their errors; how many there are."""
    told = line.json("observers")
    assert (told["capacity"], told["held"], told["total"]) == (5, 4, 5)
    assert told["oldest_waiting"] >= 90
    hosts = [(one["name"], one["state"], one["load"]) for one in told["hosts"]]
    assert hosts == [("a", "up", 4), ("b", "draining", 0), ("c", "up", 0)]
    rows = [(one["name"], one["place"]) for one in told["observers"]]
    assert rows[:2] == [("bad", "parked"), ("wait", "waiting")]
    assert rows[-1] == (LONG, "running")
    [heavy, watch] = told["kinds"]
    assert heavy["places"]["parked"] == 1
    assert (watch["weight"], watch["moves"]) == (5, 3)

    shown = line("observers")
    assert shown.exit_code == 0
    assert "Room on hosts       1, of 5, on 1 of 3 hosts\n" in shown.stdout
    assert "████████░░" in shown.stdout
    assert "ConnectionError: <b>no</b> route" in shown.stdout
    assert f"{LONG}" in shown.stdout


def test_signatures_that_cannot_be_sent_are_shown(
    dsn: str, ids: dict[str, str], line: Line
) -> None:
    """How many, for how long, and why; one that was not tried yet is none of them."""
    assert "not sent" not in line("observers").stdout
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "insert into pecker_observer_notices (signature, event, held_until, tries,"
            " created_at, last_error) values"
            " ('{}', '{}', now(), 0, now() - interval '9 h', null),"
            " ('{}', '{}', now(), 1, now() - interval '2 h', 'TypeError: first'),"
            " ('{}', '{}', now(), 7, now() - interval '1 h', 'NotRegistered: tell')"
        )
    told = line.json("observers")["unsent"]
    assert (told["count"], told["error"]) == (2, "NotRegistered: tell")
    assert 7_200 <= told["oldest"] < 32_400
    why = "2 signatures of on_parked and on_moved not sent, the oldest for "
    assert why in line("observers").stdout
    said = line("health", "--observers", "--within", "3600")
    assert (said.exit_code, why in said.stdout) == (1, True)
    within = line("health", "--observers", "--within", "80000").stdout
    assert "not sent" not in within


def test_rows_are_chosen_by_kind_host_and_place(
    ids: dict[str, str], line: Line
) -> None:
    """A host by its name or its id; who is unknown is refused with what there is."""

    def names(*words: str) -> list[str]:
        return [one["name"] for one in line.json("observers", *words)["observers"]]

    assert names("--kind", "heavy") == ["bad"]
    assert names("--place", "stopping") == ["leave"]
    assert names("--node", "a") == names("--node", ids["a"]) == ["leave", "retry", LONG]
    assert names("--node", "b") == []
    cut = line.json("observers", "--limit", "2")
    assert (len(cut["observers"]), cut["total"]) == (2, 5)
    assert "and 3 more" in line("observers", "--limit", "2").stdout
    for option, allowed in (
        ("--node", "'a', 'b', 'c'"),
        ("--kind", "'heavy', 'watch'"),
    ):
        refused = line("observers", option, "x")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert allowed in refused.stderr
    wrong = line("observers", "--place", "gone")
    assert wrong.exit_code == 2
    assert "'parked'" in wrong.stderr


def test_one_is_shown_with_its_life(ids: dict[str, str], line: Line) -> None:
    """What happened to it, newest first; one that there is not ends with 1."""
    told = line.json("observers", "show", "bad")
    assert told["observer"]["state"] == {"seq": 7}
    events = [one["event"] for one in told["history"]]
    assert events == ["parked", "failed", "started", "created"]
    assert told["history"][0]["node_name"] == "a"
    assert len(line.json("observers", "show", "bad", "--limit", "1")["history"]) == 1
    shown = line("observers", "show", "bad").stdout
    assert "{'symbol': 'BTC'}" in shown
    assert "ConnectionError: <b>no</b> route" in shown
    missing = line("observers", "show", "nobody's")
    assert missing.exit_code == 1
    assert 'there is no observer "nobody\'s"' in missing.stderr


def test_one_is_started_by_the_name_of_its_kind(
    dsn: str, ids: dict[str, str], line: Line
) -> None:
    """With arguments and a weight; what cannot be is refused with what is allowed."""
    made = line.json("observers", "start", "watch", "new", "--args", '{"symbol": "X"}')
    row = line.json("observers", "show", "new")["observer"]
    assert (row["id"], row["args"], row["weight"]) == (made["id"], {"symbol": "X"}, 1)
    assert line("observers", "start", "watch", "w2", "--weight", "2").exit_code == 0
    assert line.json("observers", "show", "w2")["observer"]["weight"] == 2
    for words, code, said in (
        (("watch", "new"), 1, "there already"),
        (("what", "x"), 1, "'heavy', 'watch'"),
        (("watch", "x", "--weight", "6"), 1, "allowed are 1 to 5"),
        (("watch", "x", "--weight", "0"), 1, "from 1 to 1000000"),
        (("heavy", "x", "--refuse"), 1, "no host has room"),
        (("watch", ""), 1, "1 to 500 characters"),
        (("watch", "x", "--args", "{"), 2, "no JSON"),
        (("watch", "x", "--args", "[1]"), 2, "a JSON object"),
    ):
        refused = line("observers", "start", *words)
        assert refused.exit_code == code, words
        assert said in refused.stderr, words
    assert "x" not in statuses(dsn)


def test_a_kind_of_the_apps_own_code_has_its_arguments_checked(
    dsn: str, ids: dict[str, str], make_line: MakeLine
) -> None:
    """Also where no host has declared it yet."""
    line = make_line(dsn)
    own = Observers(line.app)

    async def mine(lease: Any, symbol: str) -> None:
        """Do nothing: no host runs it here."""

    own.observer(mine, weight=3)
    refused = line("observers", "start", "mine", "x", "--args", '{"sign": "X"}')
    assert refused.exit_code == 1
    assert "allowed is (symbol" in refused.stderr
    started = line("observers", "start", "mine", "x", "--args", '{"symbol": "X"}')
    assert started.exit_code == 0
    assert line.json("observers", "show", "x")["observer"]["weight"] == 3


def test_one_is_stopped_and_restarted_in_one_vocabulary(
    dsn: str, ids: dict[str, str], line: Line
) -> None:
    """The same answers as of the API; a name that nobody knows ends with 1."""

    def answer(what: str, name: str, code: int = 0) -> str:
        told = line.json("observers", what, name, code=code)
        assert told["name"] == name
        return str(told["answer"])

    assert answer("restart", "bad") == "asked"
    assert line.json("observers", "show", "bad")["observer"]["place"] == "waiting"
    assert answer("stop", LONG) == "asked"
    assert answer("stop", LONG) == "already asked"
    assert answer("restart", LONG, 1) == "already asked"
    assert answer("stop", "wait") == "not active yet"
    assert answer("stop", "wait", 1) == "already deleted"
    assert answer("stop", "nobody", 1) == answer("restart", "nobody", 1) == "not found"
    assert statuses(dsn)[LONG] == "on_deleting"
    assert line("observers", "stop", "bad").stdout == "Asked to end: bad.\n"


def test_a_host_is_drained_and_takes_observers_again(
    dsn: str, ids: dict[str, str], line: Line
) -> None:
    """By name or id; an unknown one is refused with those that there are."""
    assert line.json("observers", "drain", "a") == {"node": "a", "hosts": 1}
    assert line.json("observers")["hosts"][0]["state"] == "draining"
    assert line("observers", "undrain", ids["a"]).exit_code == 0
    with psycopg.connect(dsn) as connection:
        states = connection.execute(
            "select name, state from pecker_observer_nodes order by name"
        ).fetchall()
    assert states == [("a", "up"), ("b", "draining"), ("c", "up")]
    for word in ("drain", "undrain"):
        refused = line("observers", word, "x")
        assert refused.exit_code == 1
        assert "there are 'a', 'b', 'c'" in refused.stderr


@pytest.mark.parametrize("wide", [50, 80])
def test_names_stay_whole_on_a_narrow_terminal(
    ids: dict[str, str], line: Line, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that has no room is a block."""
    drawn = StringIO()
    console = Console(file=drawn, width=wide, highlight=False)
    monkeypatch.setattr(Context, "console", console)
    assert line("observers").exit_code == 0
    lines = drawn.getvalue().splitlines()
    assert max(map(len, lines)) <= wide
    text = "".join(part.strip() if len(part) == wide else part for part in lines)
    for word in ("retry", ids["a"], "draining", "████████░░"):
        assert word in drawn.getvalue()
    assert "…" not in text
    assert LONG.replace(" ", "") in text.replace(" ", "")


def test_a_bar_is_never_empty_where_something_is_held() -> None:
    """And never longer than its capacity."""
    assert [bar(*one) for one in ((0, 9), (1, 1000), (5, 10), (12, 10))] == [
        *("░░░░░░░░░░", "█░░░░░░░░░", "█████░░░░░", "██████████"),
    ]


def test_health_says_who_is_not_run(dsn: str, ids: dict[str, str], line: Line) -> None:
    """Who waits too long, or is parked; by the exit code."""
    told = line.json("health", "--observers", code=1)
    assert (told["healthy"], told["observers"]["run"]) == (False, False)
    assert told["observers"]["free"] == 1
    said = line("health", "--observers").stdout
    assert "1 waiting, the oldest for " in said
    assert "1 parked: ask pecker observers --place parked" in said
    within = line("health", "--observers", "--within", "3600")
    assert within.stdout == (
        "observers: 1 parked: ask pecker observers --place parked\n"
    )
    assert line("observers", "stop", "bad").exit_code == 0
    well = line("health", "--observers", "--within", "3600")
    assert well.exit_code == 0
    assert well.stdout.startswith("observers: 1 of 5 weights free")
    with psycopg.connect(dsn) as connection:
        connection.execute("update pecker_observer_nodes set state = 'draining'")
    nobody = line("health", "--observers")
    assert (nobody.exit_code, "no host takes any" in nobody.stdout) == (1, True)


def test_explain_names_the_session_that_holds_an_observer(
    dsn: str, ids: dict[str, str], line: Line
) -> None:
    """A guard that goes on keeps hosts from it; then it is seen that there is room."""
    assert line.json("observers", "explain", "bad", code=1)["verdict"] == "parked"
    assert line.json("observers", "explain", LONG)["verdict"] == "running"
    assert line.json("observers", "explain", "wait")["verdict"] == "waiting"
    with psycopg.connect(dsn, application_name="feed") as feed:
        feed.execute("select from pecker_observers where name = 'wait' for share")
        pid = feed.info.backend_pid

        def named() -> bool:
            return line("observers", "explain", "wait").exit_code == 1

        eventually(named, 60.0, "it is named once it is no moment any more")
        reply = line.json("observers", "explain", "wait", code=1)
        assert reply["verdict"] == "locked"
        assert f"held by process {pid} of PostgreSQL" in reply["why"]
        assert f"select pg_terminate_backend({pid})" in reply["advice"]


def test_arguments_are_hidden_where_the_setting_says_so(
    dsn: str, ids: dict[str, str], make_line: MakeLine
) -> None:
    """In the command and in its JSON; their names stay."""
    shown, hidden = make_line(dsn), make_line(dsn, pecker_show_arguments=False)
    assert "BTC" in shown("observers", "show", "bad").stdout
    assert shown.json("observers", "show", "bad")["observer"]["args"] == {
        "symbol": "BTC"
    }
    assert "BTC" not in hidden("observers", "show", "bad").stdout
    observer = hidden.json("observers", "show", "bad")["observer"]
    assert observer["args"] == {"symbol": HIDDEN}
    assert observer["state"] == HIDDEN
    [bad] = [
        one for one in hidden.json("observers")["observers"] if one["name"] == "bad"
    ]
    assert bad["args"] == {"symbol": HIDDEN}
