"""What a scheduler costs: CPU time, memory, log lines, writes."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psutil
import psycopg

from benchmarks.schedules.arrivals import spread
from benchmarks.servers import Servers

_WOKE = re.compile(
    r"^\[(?P<when>[-0-9]+ [:0-9]+,\d+): .*pecker: woke, due=(?P<due>\d+)"
    r" won=(?P<won>\d+) published=(?P<published>\d+) missed=(?P<missed>\d+)"
    r" claim=(?P<claim>[.0-9]+)ms publish=(?P<publish>[.0-9]+)ms",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """One line of the log: a claim and what came of it."""

    when: float
    won: int
    missed: int
    claim_ms: float
    publish_ms: float


def wakes(log: str, since: float = 0.0, until: float = float("inf")) -> list[Wake]:
    """Return the wake-ups that a scheduler's log tells of."""
    found = []
    for line in _WOKE.finditer(log):
        written = datetime.strptime(line["when"], "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007 - local, as Celery writes it
        when = written.timestamp()
        if since <= when < until:
            found.append(
                Wake(
                    when=when,
                    won=int(line["won"]),
                    missed=int(line["missed"]),
                    claim_ms=float(line["claim"]),
                    publish_ms=float(line["publish"]),
                )
            )
    return found


@dataclass(slots=True)
class Meter:
    """CPU time of what takes part, and of the machine, between two readings."""

    servers: Servers
    scheduler: int
    consumer: int
    _before: dict[str, float] = field(default_factory=dict)

    def start(self) -> None:
        """The time counts from here."""
        self._before = self._read()

    def stop(self, slots: int, seconds: float) -> dict[str, Any]:
        """Return what was spent since, by slots delivered and by the second."""
        now = self._read()
        spent = {key: max(now[key] - value, 0.0) for key, value in self._before.items()}
        gone = not psutil.pid_exists(self.scheduler)
        if gone:
            del spent["scheduler"]
        machine = spent.pop("machine")
        known = {"postgresql", "redis"} <= spent.keys()
        cores = psutil.cpu_count() or 1
        elsewhere = max(machine - sum(spent.values()), 0.0) / seconds / cores
        per_1000 = {
            f"{name}_cpu_s_per_1000": round(value / slots * 1000, 5) if slots else None
            for name, value in spent.items()
            if name not in {"consumer", "bench"}
        }
        return {
            **per_1000,
            **({} if gone else self._scheduler(spent["scheduler"], seconds)),
            "others_share": round(elsewhere, 3) if known else None,
        }

    def _scheduler(self, spent: float, seconds: float) -> dict[str, float]:
        return {
            "scheduler_cpu_share": round(spent / seconds, 4),
            "scheduler_rss_mb": round(_rss(self.scheduler) / 2**20, 1),
        }

    def _read(self) -> dict[str, float]:
        total = psutil.cpu_times()
        idle = total.idle + getattr(total, "iowait", 0.0)
        read = {
            "machine": sum(total[:8]) - idle,
            "scheduler": _family(self.scheduler),
            "consumer": _family(self.consumer),
            "bench": _family(psutil.Process().pid, alone=True),
        }
        return read | {
            name: _family(pid) for name, pid in self.servers.server_pids.items()
        }


def _family(pid: int, *, alone: bool = False) -> float:
    """CPU seconds of a process and its children, ended ones included."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    spent: float = times.user + times.system
    if not alone:
        spent += times.children_user + times.children_system
        for child in process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                theirs = child.cpu_times()
                spent += theirs.user + theirs.system
    return spent


def _rss(pid: int) -> int:
    process = psutil.Process(pid)
    process_tree = [process, *process.children(recursive=True)]
    return sum(member.memory_info().rss for member in process_tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What PostgreSQL has counted so far."""

    updates: int
    hot: int
    wal: int

    @classmethod
    def read(cls, connection: psycopg.Connection[Any], schema: str) -> Written:
        """Return the counts of a schema's hot table, and of the server's WAL."""
        row = connection.execute(
            "select coalesce(n_tup_upd, 0), coalesce(n_tup_hot_upd, 0),"
            " (pg_current_wal_insert_lsn() - '0/0')::bigint"
            " from pg_stat_user_tables"
            " where schemaname = %s and relname = 'pecker_tasks'",
            [schema],
        ).fetchone()
        if row is None:
            return cls(updates=0, hot=0, wal=0)
        return cls(updates=row[0], hot=row[1], wal=row[2])

    def hot_share_since(self, before: Written) -> float:
        """Return the share of updates that wrote no index."""
        updates = self.updates - before.updates
        return round((self.hot - before.hot) / max(updates, 1), 5)


def of_wakes(found: list[Wake]) -> dict[str, Any]:
    """Return what a table says of wake-ups."""
    return {
        "wakes": len(found),
        "missed": sum(wake.missed for wake in found),
        "claim_ms": spread([wake.claim_ms for wake in found]),
        "publish_ms": spread([wake.publish_ms for wake in found]),
    }
