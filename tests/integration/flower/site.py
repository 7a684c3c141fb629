"""A Flower of its own, and a browser's part of HTTP."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from celery import Celery

from celery_pecker.testing import eventually, free_port
from example_project.processes import ProcessContainer

APP = """
from celery import Celery
from celery.schedules import crontab

app = Celery("proj", broker={broker!r})
app.conf.update(**{conf!r})
app.conf.beat_schedule = {{
    "nightly": {{"task": "proj.report", "schedule": crontab(hour=3, minute=30)}},
    "hourly": {{"task": "proj.report", "schedule": crontab(minute=0)}},
    "often": {{"task": "proj.tick", "schedule": 0.5}},
}}
"""
CONFIG = """
from celery_pecker.flower import install
install({arguments})
"""


@dataclass(slots=True)
class Site:
    """Starts Flower as users do: with two lines in flowerconfig.py, or our command."""

    folder: Path
    broker_url: str
    conf: dict[str, Any]
    prefix: str = ""
    more: str = ""
    """Lines at the end of the app's module."""
    process: Any = None
    url: str = ""
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=10.0))

    def start(
        self,
        *options: str,
        command: tuple[str, ...] = ("flower",),
        arguments: str = "",
        before: str = "",
        env: dict[str, str] | None = None,
    ) -> Site:
        """Flower answers."""
        (self.folder / "proj.py").write_text(
            APP.format(broker=self.broker_url, conf=self.conf) + self.more
        )
        if command == ("flower",):
            config = before + CONFIG.format(arguments=arguments)
            (self.folder / "flowerconfig.py").write_text(config)
        port = free_port()
        given = [*options, *([f"--url_prefix={self.prefix}"] if self.prefix else [])]
        self.process = ProcessContainer(
            [
                *(sys.executable, "-W", "error::DeprecationWarning:celery_pecker"),
                *("-m", "celery", "-A", "proj", *command),
                *("--address=127.0.0.1", f"--port={port}", *given),
            ],
            name="flower",
            cwd=self.folder,
            env=env,
        )
        self.process.start()
        self.url = f"http://127.0.0.1:{port}{'/' if self.prefix else ''}{self.prefix}"
        try:
            eventually(
                self.answers, 30.0, "Flower answers", ignoring=(httpx.HTTPError,)
            )
        except AssertionError as error:
            error.add_note(self.log)
            raise
        return self

    def answers(self) -> bool:
        """Whether it serves anything."""
        return bool(self.client.get(f"{self.url}/healthcheck").is_success)

    def close(self) -> None:
        """All is gone."""
        self.client.close()
        if self.process is not None:
            self.process.remove()

    @property
    def log(self) -> str:
        """All that Flower said."""
        text: bytes = self.process.logs()
        return text.decode(errors="replace")

    # What a worker does

    def received(self, task_id: str, task: str) -> None:
        """Have Flower know a task by the event that a worker sends."""
        with (
            Celery(broker=self.broker_url, set_as_current=False) as app,
            app.connection_for_write() as connection,
            app.events.Dispatcher(connection, hostname="a worker") as events,
        ):

            def known() -> bool:
                events.send("task-received", uuid=task_id, name=task, args="()")
                return self.get(f"/task/{task_id}").status_code == 200

            eventually(known, 30.0, "Flower has heard of it", interval=0.2)

    # What a browser does

    def get(self, path: str, **query: str) -> httpx.Response:
        """Return a page."""
        return self.client.get(f"{self.url}{path}?{urlencode(query)}")

    def data(self, path: str, **query: str) -> dict[str, Any]:
        """Return what a page shows."""
        answer = self.get(f"{path}/data", **query)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def post(self, path: str, *, token: bool = True, **body: object) -> httpx.Response:
        """Return the answer to an action; `token`: as the page's own script asks."""
        headers = {"Content-Type": "application/json"}
        if token:
            self.get("/schedules")  # its cookie
            headers["X-XSRFToken"] = self.client.cookies["_xsrf"]
        return self.client.post(
            f"{self.url}{path}", content=json.dumps(body), headers=headers
        )
