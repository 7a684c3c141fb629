"""``top`` and ``record`` on a real Redis."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from celery_pecker.testing import EmbeddedRedis, eventually, free_port
from tests.command_line import Line
from tests.integration.throttle.cli.conftest import LIMITS
from tests.integration.throttle.crew import Crew

APP = """
from celery import Celery
app = Celery("proj", broker="memory://")
app.conf.throttle_redis_url = {url!r}
app.conf.throttle_limits = {limits!r}
app.conf.throttle_estimator = "fast"
"""


def database(line: Line) -> dict[str, Any]:
    """Return what programs are told of main."""
    told = line.json("top", "--once")["databases"]
    found: dict[str, Any] = next(one for one in told if one["name"] == "main")
    return found


def test_top_shows_what_redis_knows(line: Line, crew: Crew) -> None:
    """Traffic, limit, who holds how much, of which tenant."""

    def seen() -> bool:
        shown = line("top", "--once").stdout
        return bool(
            re.search(r"│  (4\d|5\d)%  2,\d\d\d of 5,000/s, \d+\.\d of 40", shown)
        )

    eventually(seen, 30.0, "the traffic of all")
    shown = line("top", "--once").stdout
    assert " HOLDING  main  40 tasks wait, the oldest for 3.5 s" in shown
    # A pipe is no reason to cut a figure
    assert re.search(r"w1@node .* 40 +3\.5 s +70 in all", shown)
    assert "acme" in shown
    assert " UNGUARDED  quiet" in shown
    assert crew.workers


def test_top_tells_programs_the_same(line: Line, crew: Crew) -> None:
    """One document with --once, one line a look without."""

    def shares() -> bool:
        main = database(line)
        shares: dict[str, float] = {
            one["name"]: one["share"] for one in main["workers"]
        }
        assert sum(shares.values()) <= 1.0
        return shares["w1@node"] > shares["w2@node"] > 0

    eventually(shares, 30.0, "who wants more gets more")
    main = database(line)
    assert 0 < main["outside"]["operations"] < main["traffic"]["operations"]
    assert (main["state"], main["held"], main["admitted"]) == ("holding", 40, 140)
    told = line("top", "--json", "--every", "0.1", "--times", "3").stdout.splitlines()
    assert [json.loads(one)["databases"][0]["held"] for one in told] == [40] * 3
    assert crew.workers


CELERY = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("celery", run_name="__main__", alter_sys=True)
"""
"""Celery's command as a terminal starts it: where a shell has started the tests in the
background, SIGINT is ignored, and each child inherits that."""


def test_top_may_show_one_database(line: Line) -> None:
    """A misspelt one is no empty screen."""
    shown = line("top", "--once", "--database", "quiet").stdout
    assert "quiet" in shown
    assert "main" not in shown
    wrong = line("top", "--once", "--database", "mian")
    assert wrong.exit_code == 1
    assert "'mian' has no limit in throttle_limits; known: main, quiet" in wrong.stderr


def test_the_screen_goes_on_while_redis_is_away_and_ends_by_ctrl_c(
    own_redis: Callable[..., EmbeddedRedis], tmp_path: Path
) -> None:
    """A real terminal: it says so at once, comes back, and leaves what was seen."""
    redis = own_redis(fast=True)
    (tmp_path / "proj.py").write_text(APP.format(url=redis.url, limits=LIMITS))
    screen, inside = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", CELERY, "-A", "proj", "throttle", "top"],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
        start_new_session=True,
    )
    os.close(inside)
    text = bytearray()

    def shows(what: str) -> bool:
        while select.select([screen], [], [], 0.0)[0]:
            try:
                text.extend(os.read(screen, 65_536))
            except OSError:  # it has ended
                break
        return what in text.decode(errors="replace")

    try:
        eventually(lambda: shows("UNGUARDED"), 30.0, "the screen")
        redis.kill()
        eventually(lambda: shows("No answer for"), 30.0, "the outage")
        redis.start()

        def is_back() -> bool:
            if shows("No answer"):
                text.clear()  # that picture was drawn before
            return shows("UNGUARDED")

        eventually(is_back, 30.0, "the return")
        text.clear()
        process.send_signal(signal.SIGINT)
        # A terminal that nobody reads is full soon, and who writes to it waits
        eventually(
            lambda: shows("quiet") and process.poll() is not None,
            30.0,
            "it ends, and the last picture stays",
        )
        assert process.returncode == 0
        assert not shows("Traceback")
    except AssertionError as error:
        error.add_note(f"exit code {process.poll()}; shown last: {text[-3000:]!r}")
        raise
    finally:
        process.kill()
        process.wait()
        os.close(screen)


@pytest.mark.parametrize(
    "words", [("top", "--once"), ("record", "--to", "run.svg"), ("check",)]
)
def test_what_nobody_can_say_is_no_yes(
    make_line: Callable[..., Line], words: tuple[str, ...], tmp_path: Path
) -> None:
    """Redis is not there: exit code 3, one line, and no file."""
    url = f"redis://:secret@127.0.0.1:{free_port()}/0"
    line = make_line(throttle_redis_url=url, throttle_limits=LIMITS)
    given = [word if word != "run.svg" else str(tmp_path / word) for word in words]
    result = line(*given)
    assert result.exit_code == 3, result.output
    assert "away" in result.output
    assert "secret" not in result.output
    assert not [*tmp_path.iterdir()]


def test_without_settings_it_is_said_what_to_set(
    make_line: Callable[..., Line],
) -> None:
    """By every command."""
    result = make_line()("top", "--once")
    assert result.exit_code == 1
    assert "throttle_redis_url (or throttle_service_url) is not set" in result.stderr


def test_a_run_is_recorded_and_drawn(line: Line, crew: Crew, tmp_path: Path) -> None:
    """As JSON, and from it as a chart; or as a chart at once."""
    run, picture = tmp_path / "run.json", tmp_path / "run.svg"
    told = line("record", "--seconds", "1.5", "--to", str(run))
    assert told.exit_code == 0, told.output
    assert "most held 40" in told.stdout
    recordings = json.loads(run.read_text())["recordings"]
    assert [one["database"] for one in recordings] == ["main", "quiet"]
    main = recordings[0]
    assert 8 <= len(main["at"]) <= 17, "ten looks a second"
    assert main["limit"][0] == 5_000
    assert max(main["traffic"]) > 1_000
    drawn = line("record", "--from", str(run), "--to", str(picture), "--title", "Rush")
    assert drawn.exit_code == 0, drawn.output
    words = [one.text for one in ET.parse(picture).iter()]  # noqa: S314 — our own
    assert "Rush" in words
    assert "most held" in words
    alone = ("record", "--from", str(run), "--database", "main", "--to", str(picture))
    assert line(*alone).exit_code == 0
    assert "quiet" not in picture.read_text()
    assert crew.workers


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--to", "run.png"), 2, "run.png must end in .svg or .json"),
        (("--to", "no/such/folder/run.svg", "--seconds", "1"), 1, "no/such/folder"),
        (("--to", "run.svg", "--from", "wrong.json"), 1, "this is no recording"),
        (("--to", "run.svg", "--seconds", "0"), 2, "--seconds"),
    ],
)
def test_what_cannot_be_written_is_said(
    line: Line,
    words: tuple[str, ...],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.json").write_text("[]")
    result = line("record", *words)
    assert result.exit_code == code, result.output
    assert said in result.output
