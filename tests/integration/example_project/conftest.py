"""The example's own tables in a database of the test, its remote parts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from celery_pecker.testing import eventually
from example_project.pace import STALE
from example_project.parts.control import Control
from example_project.processes import ProcessContainer
from example_project.store import Store

ROOT = Path(__file__).resolve().parents[3]
CALLS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """Where the remote parts of the test listen."""

    host: str
    agents: list[int]
    equipment: int
    backend: int
    control: Control

    def at(self, part: str, call: int = 1) -> tuple[str, int]:
        """Return the address of a part of a call."""
        ports = {"equipment": self.equipment, "backend": self.backend}
        return self.host, ports.get(part) or self.agents[call - 1]


@pytest.fixture(scope="session")
def parts() -> Iterator[Remote]:
    """Give a process of remote parts of a few calls."""
    process = ProcessContainer(
        [sys.executable, "-m", "example_project.parts", "--calls", str(CALLS)],
        name="parts",
        cwd=ROOT,
    )
    process.start()
    eventually(lambda: "}\n" in process.life_log(), 30.0, "the parts listen")
    said = json.loads(process.life_log().splitlines()[0])
    control = Control(said["host"], said.pop("control"))
    yield Remote(**said, control=control)
    process.remove()


@pytest.fixture
def remote(parts: Remote) -> Iterator[Remote]:
    """Give remote parts that are well, and a backend that waits for ever."""
    parts.control.hold(CALLS, float("inf"))
    yield parts
    for call in range(1, CALLS + 1):
        for part in ("agent", "equipment"):
            parts.control.heal(part, call)


@pytest.fixture
def store(dsn: str) -> Iterator[Store]:
    """Give the example's tables, empty, beside pecker's."""
    store = Store(dsn, patience=0.0)
    store.rows("schema")
    yield store
    store.close()


@pytest.fixture
def calls(store: Store) -> list[int]:
    """Give live calls whose parts nobody will ask."""
    store.rows(
        "add_parts",
        host="127.0.0.1",
        agent_ports=[1] * CALLS,
        equipment_port=1,
        backend_port=1,
    )
    store.rows("add_calls", stale=STALE)
    return list(range(1, CALLS + 1))
