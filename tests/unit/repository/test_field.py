"""What `make field` ends with; the applications themselves are adopted at night."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.field import __main__ as field


def played(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *names: str,
    refuses: tuple[str, ...] = (),
) -> tuple[object, list[str]]:
    """Return the exit code and the last lines of a run whose applications are none."""

    def resolve(place: Path, ours: Path, requirement: str) -> None:
        del place, ours
        if requirement in refuses:
            field.run(sys.executable, "-c", "raise SystemExit('no such version')")

    def adopt(name: str, place: Path, ours: Path) -> None:
        del place, ours
        if name in refuses:
            message = f"{name} has no worker"
            raise AssertionError(message)

    monkeypatch.setattr(sys, "argv", ["field", *names])
    monkeypatch.setattr(field, "wheel", lambda place: place / "wheel")
    monkeypatch.setattr(field, "resolve", resolve)
    monkeypatch.setattr(field, "adopt", adopt)
    monkeypatch.setattr(field, "RESOLVED", ("one==1", "two==2"))
    monkeypatch.setattr(field, "ADOPTED", {"first": None, "second": None})
    with pytest.raises(SystemExit) as ended:
        field.main()
    lines = capsys.readouterr().out.splitlines()
    return ended.value.code, [line.partition(" s  ")[2] for line in lines]


def test_it_ends_with_a_line_for_each_application(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of their turns."""
    code, lines = played(monkeypatch, capsys)
    assert code == 0
    assert lines == [
        "resolve one==1: ok",
        "resolve two==2: ok",
        "adopt first: ok",
        "adopt second: ok",
    ]
    assert played(monkeypatch, capsys, "second") == (0, ["adopt second: ok"])


def test_one_that_is_refused_keeps_no_other_from_its_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its line says why, and the exit code is 1."""
    code, lines = played(monkeypatch, capsys, refuses=("one==1", "first"))
    assert code == 1
    assert lines[-4:] == [
        "resolve one==1: REFUSED: no such version",
        "resolve two==2: ok",
        "adopt first: REFUSED: first has no worker",
        "adopt second: ok",
    ]
