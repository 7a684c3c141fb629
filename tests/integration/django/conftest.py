"""A Django with our admin, as its users see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.integration.django import __name__ as here
from tests.services import PostgresStand

ROOT = Path(__file__).parents[3]
PROJECT = Path(__file__).with_name("project.py")


class Site:
    """A Django process that answers requests one by one."""

    def __init__(self, dsn: str, **env: str) -> None:
        self.dsn = dsn
        self._process = subprocess.Popen(
            [sys.executable, str(PROJECT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "DJANGO_SETTINGS_MODULE": f"{here}.project",
                "PROJECT_DSN": dsn,
                **env,
            },
        )
        self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "Django has ended: its error stands above"
        told: dict[str, Any] = json.loads(line)
        return told

    def _ask(self, **asked: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self._read()

    def get(self, path: str, *, user: str = "boss", **query: str) -> dict[str, Any]:
        """Return a page below /admin/celery_pecker/."""
        return self._ask(
            method="get", user=user, path=f"/admin/celery_pecker/{path}", data=query
        )

    def post(self, path: str, *, user: str = "boss", **data: Any) -> dict[str, Any]:
        """Return the answer to a form."""
        return self._ask(
            method="post", user=user, path=f"/admin/celery_pecker/{path}", data=data
        )

    def command(self, *words: str) -> int:
        """Return how a command of manage.py has ended."""
        return int(self.run(*words)["status"] or 0)

    def run(self, *words: str, **settings: Any) -> dict[str, Any]:
        """Return how a command of manage.py has ended, and what it printed."""
        return self._ask(command=words, settings=settings)

    def serve(self, user: str) -> tuple[str, str]:
        """Serve a browser; return the address and the key of the user's session."""
        answer = self._ask(serve=user)
        return f"http://127.0.0.1:{answer['port']}", answer["session"]

    def test_database(self, alias: str) -> list[int]:
        """Return the steps that a test database has, as test runners make it."""
        steps: list[int] = self._ask(test_database=alias)["steps"]
        return steps

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30.0)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="module")
def shared_dsn(postgres_server: PostgresStand) -> Iterator[str]:
    """Give the address of a database for all tests of a module."""
    with postgres_server.fresh(migrated=True) as address:
        yield address


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., Site]]:
    """Give a function that starts a Django over a database."""
    with ExitStack() as stack:

        def begin(dsn: str, **env: str) -> Site:
            site = Site(dsn, **env)
            stack.callback(site.close)
            return site

        yield begin
