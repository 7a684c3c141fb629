"""One trace from the claim to the task to its subtask, over real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules.tracing import require
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer

pytestmark = pytest.mark.cluster

APP = ("-m", "tests.lean", "-A", "tests.integration.traced_app")
Start = Callable[..., ProcessContainer]


@pytest.fixture
def start(dsn: str, redis_url: str, queue_name: str, tmp_path: Path) -> Iterator[Start]:
    """Give a function that starts a process of the app."""
    conf = {
        "pecker_dsn": dsn,
        "pecker_tracing": True,
        "broker_url": redis_url,
        "task_default_queue": queue_name,
        "pecker_heartbeat_dir": str(tmp_path / "beats"),
    }
    with ExitStack() as stack:

        def begin(*command: str, **env: str) -> ProcessContainer:
            process = ProcessContainer(
                [sys.executable, *APP, *command],
                name=command[0],
                env={
                    "PECKER_TEST_FOLDER": str(tmp_path),
                    "PECKER_TEST_CONF": json.dumps(conf),
                    **env,
                },
            )
            process.start()
            stack.callback(process.remove)
            return process

        yield begin


def spans(folder: Path) -> list[dict[str, Any]]:
    """Return all that was written by now."""
    return [
        json.loads(line)
        for file in folder.glob("spans-*")
        for line in file.read_text().splitlines()
        if line.endswith("}")
    ]


def whole(folder: Path, claim: str, run: str, part: str) -> list[dict[str, Any]]:
    """Return the spans of one trace that has all three, else nothing."""
    by_trace: dict[str, list[dict[str, Any]]] = {}
    for span in spans(folder):
        by_trace.setdefault(span["trace"], []).append(span)
    for found in by_trace.values():
        if {claim, run, part} <= {span["name"] for span in found}:
            return found
    return []


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_one_trace_leads_from_the_claim_to_the_subtask(
    start: Start, tmp_path: Path, pool: str
) -> None:
    """Each is the child of the one before, and says which slot it is."""
    env = {} if pool == "prefork" else {"PECKER_TEST_SAME_PROCESS": "1"}
    start("worker", "-P", pool, "-c", "1", "-l", "INFO", **env)
    start("beat", "-S", "pecker", "-l", "INFO")
    names = ("pecker claim", "run look", "run part")
    eventually(lambda: whole(tmp_path, *names), 40, "a whole trace")
    found = {span["name"]: span for span in whole(tmp_path, *names)}
    assert len(found) == len(whole(tmp_path, *names)) == 3, "no span comes twice"
    claim, run, part = (found[name] for name in names)
    assert claim["parent"] is None
    assert run["parent"] == claim["span"]
    assert part["parent"] == run["span"]
    assert claim["attributes"]["pecker.entry"] == "look"
    assert run["attributes"]["pecker.epoch"] == claim["attributes"]["pecker.epoch"]
    assert run["attributes"]["celery.state"] == "SUCCESS"


def test_beside_the_instrumentation_no_run_has_two_spans(
    start: Start, tmp_path: Path
) -> None:
    """Its span of the run is part of the slot's trace, and ours is left out."""
    start("worker", "-P", "prefork", "-c", "1", PECKER_TEST_INSTRUMENTED="1")
    start("beat", "-S", "pecker", "-l", "INFO")
    names = ("pecker claim", "run/look", "run/part")
    eventually(lambda: whole(tmp_path, *names), 40, "a whole trace")
    told = [span["name"] for span in whole(tmp_path, *names)]
    assert sorted(told) == sorted([*names, "apply_async/part"])


FAILING = """
from types import SimpleNamespace
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules.tracing import hook

class Failing(SpanProcessor):
    def on_start(self, span, parent_context=None): raise ValueError("in a processor")

trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(Failing())
of = hook(Settings(dsn="x", app="x", tracing=True))
entry = SimpleNamespace(name="look", task="look")
print(of(SimpleNamespace(entry=entry, due_us=1, epoch=1)))
"""


def test_a_span_that_cannot_be_opened_costs_no_slot() -> None:
    """Processors and samplers are users' code, between a claim and its message."""
    said = subprocess.run(
        [sys.executable, "-c", FAILING], capture_output=True, text=True, check=False
    )
    assert said.stdout == "None\n", said.stderr
    assert "tracing of a claim failed" in said.stderr


def test_without_the_library_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A setting that cannot be fulfilled is refused with the cure."""
    monkeypatch.setattr("celery_pecker.schedules.tracing.find_spec", lambda _name: None)
    with pytest.raises(Misconfigured, match=r"celery-pecker\[otel\]"):
        require(Settings(dsn="postgresql://x", app="x", tracing=True))
    assert not require(Settings(dsn="postgresql://x", app="x"))
