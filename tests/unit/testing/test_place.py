"""Where the files of an embedded server lie."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from celery_pecker.testing import EmbeddedPostgres
from celery_pecker.testing import servers as where


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a directory that takes the place of the one in memory."""
    monkeypatch.setattr(where, "MEMORY", tmp_path)
    return tmp_path


def test_files_that_may_be_lost_lie_in_memory(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those: a server that is not fast writes to the disk."""
    monkeypatch.setattr(where, "ROOM", 0)
    usual = Path(tempfile.gettempdir())
    assert where.place(passable=False, fast=True) == memory
    assert where.place(passable=False, fast=False) == usual


def test_too_small_a_memory_is_left_alone(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container has 64 MB of it: PostgreSQL would fail in the middle of a test."""
    monkeypatch.setattr(where, "ROOM", 2**80)
    assert where.place(passable=False, fast=True) == Path(tempfile.gettempdir())
    monkeypatch.setattr(where, "MEMORY", memory / "missing")
    assert where.place(passable=False, fast=True) == Path(tempfile.gettempdir())


def test_nobody_s_server_lies_where_nobody_may_go(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of root alone is of no use to a server that runs as nobody."""
    monkeypatch.setattr(where, "ROOM", 0)
    memory.chmod(0o700)
    assert where.place(passable=True, fast=True) != memory


def test_a_fast_server_leaves_nothing_in_memory() -> None:
    """Its directory goes with it."""
    with EmbeddedPostgres(fast=True) as server:
        folder = server.directory
        assert folder.exists()
    assert not folder.exists()
