"""``sharding watch`` in a real terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from celery_pecker.testing import eventually
from tests.integration.sharding.cli.test_commands import job
from tests.proxy import Proxy

__all__ = ["job"]

APP = """
from celery import Celery
app = Celery("proj", broker="memory://")
app.conf.pecker_dsn = {dsn!r}
app.conf.pecker_database_timeout = 1.0
"""


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.screen, inside = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.lean", "-A", "proj", "sharding", *words],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            cwd=folder,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "130", "LINES": "40"},
            start_new_session=True,
        )
        os.close(inside)
        self.text = bytearray()

    def shows(self, what: str) -> bool:
        """Whether that was on the screen by now."""
        while select.select([self.screen], [], [], 0.0)[0]:
            try:
                read = os.read(self.screen, 65_536)
            except OSError:  # it has ended
                break
            if not read:
                break
            self.text.extend(read)
        return what in self.text.decode(errors="replace")

    def close(self) -> None:
        """The command is gone."""
        self.process.kill()
        self.process.wait()
        os.close(self.screen)


def test_bars_go_on_while_postgresql_is_away_and_end_with_the_job(
    job: int, dsn: str, tmp_path: Path
) -> None:
    """It says so below what was seen last, and comes back by itself."""
    given = conninfo_to_dict(dsn)
    with Proxy(str(given["host"]), int(str(given["port"]))) as proxy:
        through = make_conninfo(dsn, host="127.0.0.1", port=str(proxy.port))
        (tmp_path / "proj.py").write_text(APP.format(dsn=through))
        terminal = Terminal(tmp_path, "watch", "job-a", "--every", "0.1")
        try:
            eventually(lambda: terminal.shows("layer 2"), 30.0, "the bars")
            assert terminal.shows("140/200")
            proxy.refuse()
            proxy.cut()
            eventually(lambda: terminal.shows("got no answer"), 30.0, "the outage")
            proxy.open()
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(
                    "update pecker_jobs set stage = 'ended', outcome = 'succeeded',"
                    " ended_at = clock_timestamp() where job = %s",
                    [job],
                )
            eventually(lambda: terminal.shows("partly failed"), 30.0, "its end")
            assert terminal.process.wait(30.0) == 0
        finally:
            terminal.close()
