"""Commits a second of 16 clients that record one message in each, by pgbench.

Beside them, in turns: the same clients and a plain insert of the same values into a
table of the same columns, which has a key and no other index. Each turn begins with
empty tables and after a checkpoint, and the two change places from pair to pair.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import psycopg
from psycopg import conninfo, sql

from benchmarks.outbox.field import Field
from benchmarks.results import Sample
from benchmarks.run import Run

ROW = "outbox_commits"
CLIENTS = 16
SECONDS = 3
OUTBOX = """
insert into {table} (task, task_id, exchange, routing_key, priority, content_type,
    content_encoding, declare, headers, properties, body, created_at)
select task, gen_random_uuid()::text, exchange, routing_key, priority, content_type,
    content_encoding, declare, headers, properties, body, clock_timestamp()
from {one};
"""
PLAIN = OUTBOX.replace("{table}", "{plain}")
MADE = """
create table {plain} (like {table} including defaults including identity);
"""
KEYED = "alter table {plain} add primary key (id)"


def run(run: Run) -> None:
    """Measure where pgbench is installed."""
    if shutil.which("pgbench") is None:
        run.note(f"{ROW}: pgbench is not on the PATH: not measured")
        return
    lasts = 6.0 + 2 * run.plan.pairs * (SECONDS + 1)
    run.trial(ROW, "16 clients", lasts, partial(commits, run))


def commits(run: Run) -> Sample:
    """Return commits a second of both, and their ratio in each pair."""
    field = Field(run.servers, "redis")
    with field.open(), tempfile.TemporaryDirectory() as folder:
        names = {
            "table": field.table,
            "one": sql.Identifier(field.name, "one"),
            "plain": sql.Identifier(field.name, "plain"),
        }
        with psycopg.connect(field.dsn, autocommit=True) as connection:
            field.fill(1)
            for text in (
                "create table {one} as select * from {table}",
                "truncate {table}",
                MADE,
                KEYED,
            ):
                connection.execute(sql.SQL(text).format(**names))
            scripts = {"outbox": OUTBOX, "plain": PLAIN}
            for who, text in scripts.items():
                script = sql.SQL(text).format(**names).as_string(connection)
                (Path(folder) / who).write_text(script)
        rates: dict[str, list[float]] = {who: [] for who in scripts}
        cpu: dict[str, list[float]] = {who: [] for who in scripts}
        tables = {"outbox": field.table, "plain": names["plain"]}
        for turn in range(run.plan.pairs):
            for who in list(scripts)[:: -1 if turn % 2 else 1]:
                field.connection.execute(sql.SQL("truncate {}").format(tables[who]))
                field.connection.execute("checkpoint")
                busy = _ended(run)
                rates[who].append(_pgbench(field.dsn, Path(folder) / who))
                spent = _ended(run) - busy
                cpu[who].append(spent / rates[who][-1] / SECONDS * 1e6)
                run.tell()
    pairs = [a / b for a, b in zip(rates["outbox"], rates["plain"], strict=True)]
    return {
        "clients": CLIENTS,
        "rate": {who: round(float(np.median(each))) for who, each in rates.items()},
        "cpu_us": {who: round(float(np.median(one)), 1) for who, one in cpu.items()},
        "ratio": round(float(np.median(pairs)), 2),
        "interval": _interval(pairs),
        "pairs": [round(one, 2) for one in pairs],
    }


def _interval(pairs: list[float]) -> tuple[float, float]:
    """Return between what the median lies with 95 %, by drawing the pairs again."""
    drawn = np.random.default_rng(1).choice(pairs, size=(5_000, len(pairs)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return round(float(low), 2), round(float(high), 2)


def _ended(run: Run) -> float:
    """Return the seconds of processor time of the server's sessions that ended."""
    pid = run.servers.server_pids.get("postgresql")
    if pid is None:
        return float("nan")
    times = psutil.Process(pid).cpu_times()
    return float(times.children_user + times.children_system)


def _pgbench(dsn: str, script: Path) -> float:
    parts: dict[str, Any] = dict(conninfo.conninfo_to_dict(dsn))
    password = str(parts.pop("password", ""))  # `ps` shows what is an argument
    done = subprocess.run(
        [
            *("pgbench", "-n", "-c", str(CLIENTS), "-j", "2", "-T", str(SECONDS)),
            *("-f", str(script), conninfo.make_conninfo(**parts)),
        ],
        env={**os.environ, "PGPASSWORD": password},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    if found is None:
        raise RuntimeError(done.stderr[-500:])
    return float(found[1])
