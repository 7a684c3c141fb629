"""``celery inspect pecker`` and ``control pecker_pause``, typed at a real worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.testing import eventually
from tests.integration.test_migrations import run
from tests.proxy import Proxy

APP = """
from celery import Celery
app = Celery("proj", broker={broker!r})
app.conf.update({conf!r})
@app.task(name="work")
def work(): pass
"""

pytestmark = pytest.mark.cluster


class Typed:
    """A project in a folder, and its command line."""

    def __init__(self, folder: Path, broker: str, **conf: Any) -> None:
        self.folder = folder
        (folder / "proj.py").write_text(APP.format(broker=broker, conf=conf))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command."""
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                self._words(words), cwd=self.folder, stdout=log, stderr=log
            )

    def ask(self, what: str, *words: str) -> Any:
        """Return the answer of the one worker, as JSON."""
        done = subprocess.run(
            self._words([what, "-d", "one@here", "-t", "5", "--json", *words]),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONWARNINGS": "default"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        told = json.loads(done.stdout)  # control says a list of what inspect says
        [answer] = (told[0] if isinstance(told, list) else told).values()
        return answer

    def _words(self, words: Any) -> list[str]:
        return [sys.executable, "-m", "tests.lean", "-A", "proj", *words]


def test_a_worker_tells_of_its_schedulers_and_pauses_entries(
    tmp_path: Path, dsn: str, redis_url: str, queue_name: str
) -> None:
    """Also while PostgreSQL hangs: the worker answers, and takes messages."""
    given = conninfo_to_dict(dsn)
    with Proxy(str(given["host"]), int(given["port"] or 5432)) as proxy:
        typed = Typed(
            tmp_path,
            redis_url,
            pecker_dsn=make_conninfo(dsn, port=str(proxy.port)),
            pecker_worker={"scheduler"},
            pecker_heartbeat_dir=str(tmp_path / "beats"),
            task_default_queue=queue_name,
            beat_schedule={"tick": {"task": "work", "schedule": 1.0}},
        )
        worker = typed.start("worker", "-P", "threads", "-c", "1", "-n", "one@here")
        try:
            won = "select 1 from pecker_tasks where epoch > 0"
            eventually(lambda: run(dsn, won), 30, "it wins slots")
            told = typed.ask("inspect", "pecker")["schedulers"]
            assert told[0]["kind"] == "worker"
            assert told[0]["won"] >= 1
            paused = "select paused from pecker_tasks where name = 'tick'"
            answer = typed.ask("control", "pecker_pause", "tick")
            assert answer == {"ok": "Paused tick: slots pass without a run."}
            assert run(dsn, paused) == [(True,)]
            answer = typed.ask("control", "pecker_resume", "tick")
            assert answer == {"ok": "Resumed tick, with the next slot."}
            assert run(dsn, paused) == [(False,)]
            answer = typed.ask("control", "pecker_pause", "nobody")
            assert answer == {"error": "no entry is named 'nobody' in the tables"}
            acts = "select act, subject, surface, error is null from pecker_acts"
            assert run(dsn, f"{acts} order by id") == [
                ("schedules pause", "tick", "remote control", True),
                ("schedules resume", "tick", "remote control", True),
                ("schedules pause", "nobody", "remote control", False),
            ]
            proxy.hang()
            before = SYSTEM.monotonic()
            answer = typed.ask("control", "pecker_pause", "tick")
            assert "has not answered yet" in answer["error"]
            assert SYSTEM.monotonic() - before < 20
            assert typed.ask("inspect", "ping") == {"ok": "pong"}
        finally:
            worker.send_signal(signal.SIGTERM)
            timer = threading.Timer(20, worker.kill)
            timer.start()
            worker.wait()
            timer.cancel()
    assert b"Traceback" not in (tmp_path / "log").read_bytes()
