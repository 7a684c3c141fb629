"""The sign of life on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from celery_pecker.heartbeat import Heartbeat, folder, live_schedulers
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.settings import Settings


class Hands:
    """A clock that is set by hand."""

    seconds = 100.0

    def monotonic(self) -> float:
        """Return what was set."""
        return self.seconds

    def now(self) -> datetime:
        """Return what nobody asks."""
        return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Give settings with a folder that is not there yet."""
    return Settings(dsn="x", app="a/b", heartbeat_dir=str(tmp_path / "in" / "here"))


def test_a_scheduler_lives_while_it_beats(settings: Settings) -> None:
    """Old is dead, unless it was told to stop; in its own process the same is known."""
    clock = Hands()
    hearts = [
        Heartbeat(settings, kind=kind, clock=clock) for kind in ("worker", "local")
    ]
    assert live_schedulers(settings, clock=clock) == []
    assert not hearts[0].beats
    for heart in hearts:
        heart.beat()
    clock.seconds += 4.0
    hearts[1].beat()
    found = {life.kind: life for life in live_schedulers(settings, clock=clock)}
    assert {life.pid for life in found.values()} == {os.getpid()}
    assert (found["worker"].age, found["local"].age) == (4.0, 0.0)
    assert not found["worker"].stale

    clock.seconds += 6.5
    found = {life.kind: life for life in live_schedulers(settings, clock=clock)}
    assert found["worker"].stale
    assert not found["local"].stale
    assert (hearts[0].beats, hearts[1].beats) == (False, True)

    for heart in hearts:
        heart.stop()
        heart.stop()
    assert live_schedulers(settings, clock=clock) == []


def test_patience_grows_with_what_a_turn_may_wait_for(settings: Settings) -> None:
    """Who waits 20 s for PostgreSQL does not turn every five."""
    clock = Hands()
    patient = replace(settings, database_timeout=20.0)
    Heartbeat(patient, kind="beat", clock=clock).beat()
    clock.seconds += 30.0
    assert not live_schedulers(patient, clock=clock)[0].stale
    assert live_schedulers(settings, clock=clock)[0].stale


def test_a_beat_is_written_once_a_second(settings: Settings) -> None:
    """And a file that somebody removed is there again."""
    clock = Hands()
    heart = Heartbeat(settings, kind="beat", clock=clock)
    heart.beat()
    [path] = folder(settings).iterdir()
    text = path.read_text()
    clock.seconds += 0.9
    heart.beat()
    assert path.read_text() == text
    path.unlink()
    clock.seconds += 0.1
    heart.beat()
    assert path.read_text() != text
    assert path.stat().st_mode & 0o077 == 0


def test_a_dead_process_is_forgotten_and_other_apps_are_others(
    settings: Settings,
) -> None:
    """Its file is removed by whoever looks."""
    clock = Hands()
    heart = Heartbeat(settings, kind="beat", clock=clock)
    heart.beat()
    [path] = folder(settings).iterdir()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(30)
    dead = path.with_name(path.name.replace(str(os.getpid()), str(ended.pid)))
    dead.write_text(path.read_text())
    assert [life.pid for life in live_schedulers(settings, clock=clock)] == [
        os.getpid()
    ]
    assert not dead.exists()
    for other in (replace(settings, app="a_b"), replace(settings, schema="other")):
        assert live_schedulers(other, clock=clock) == []


def test_a_folder_that_refuses_stops_nobody(
    settings: Settings, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """It is said once; links are not followed."""
    clock = Hands()
    heart = Heartbeat(settings, kind="beat", clock=clock)
    heart.beat()
    [path] = folder(settings).iterdir()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        clock.seconds += 1.0
        heart.beat()
    assert not (tmp_path / "elsewhere").exists()
    assert caplog.text.count("no heartbeat for probes") == 1
    assert live_schedulers(settings, clock=clock) == []


def test_what_somebody_put_there_harms_nobody(
    settings: Settings, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """A pipe would hold up the scheduler for ever; a hard link is another's file."""
    clock = Hands()
    heart = Heartbeat(settings, kind="beat", clock=clock)
    heart.beat()
    [path] = folder(settings).iterdir()
    precious = tmp_path / "precious"
    precious.write_text("untouched")
    for put in (os.mkfifo, lambda at: at.hardlink_to(precious), os.mkdir):
        path.unlink()
        put(path)
        clock.seconds += 1.0
        heart.beat()
        assert heart.beats
    assert precious.read_text() == "untouched"
    assert caplog.text.count("no heartbeat for probes") == 1


@pytest.mark.parametrize("how", ["mode", "owner", "link"])
def test_a_folder_that_others_may_write_into_is_none(
    settings: Settings,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    """Another user knows its name, and may make it before us."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    default = replace(settings, heartbeat_dir=None)
    clock = Hands()
    Heartbeat(default, kind="beat", clock=clock).beat()
    assert len(live_schedulers(default, clock=clock)) == 1
    place = folder(default)
    if how == "mode":
        place.chmod(0o770)
    elif how == "owner":
        if os.geteuid():
            pytest.skip("only root can give a folder away")
        os.chown(place, 1, -1)
    else:
        place.rename(tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="that no other may write into"):
        live_schedulers(default, clock=clock)
    Heartbeat(default, kind="worker", clock=clock).beat()
    assert "no heartbeat for probes" in caplog.text
    assert len([*place.iterdir()]) == 1


def test_a_process_of_the_same_id_is_another(settings: Settings) -> None:
    """Where containers start anew over a folder that stays, ids come again soon."""
    clock = Hands()
    Heartbeat(settings, kind="beat", clock=clock).beat()
    [path] = folder(settings).iterdir()
    text, born, *_ = path.read_text().split("\n")
    path.write_text(f"{text}\n{born}9\n")
    clock.seconds += 60.0
    assert live_schedulers(settings, clock=clock) == []
    assert not path.exists()


def test_a_probe_asks_without_the_app(settings: Settings, tmp_path: Path) -> None:
    """Nor Celery: their import may take longer than a probe may."""
    script = (
        "import sys; from celery_pecker.heartbeat import main\n"
        "code = main(sys.argv[1:])\n"
        "heavy = {'celery', 'kombu', 'psycopg', 'redis'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "sys.exit(code)"
    )

    def probed() -> tuple[int, str]:
        where = str(folder(settings))
        done = subprocess.run(
            [sys.executable, "-c", script, where],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        return done.returncode, done.stdout + done.stderr

    assert probed()[0] == 1
    heart = Heartbeat(settings, kind="beat", clock=SYSTEM)
    heart.beat()
    code, said = probed()
    assert (code, f"beat {os.getpid()} lives" in said) == (0, True), said
    other = Heartbeat(settings, kind="worker", clock=Hands())
    other.beat()  # long ago
    assert probed()[0] == 1
