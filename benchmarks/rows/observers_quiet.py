"""What observers cost that sleep: nothing of them is written while all is well."""

from __future__ import annotations

import time
from functools import partial

import psutil

from benchmarks.observers.field import Field
from benchmarks.results import Sample
from benchmarks.run import Run

ROW = "observers_quiet"
HOSTS = 4
REST = 5.0
"""Seconds after the last one began."""
COUNTERS = """
select jsonb_build_object(
    'transactions', (
        select xact_commit from pg_stat_database where datname = current_database()),
    'updates', (
        select sum(n_tup_upd) from pg_stat_user_tables where schemaname = %(schema)s),
    'wal', pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')
)
"""


def run(run: Run) -> None:
    """Measure once."""
    many = run.plan.observed
    lasts = 20 + many / 500 + run.plan.still
    run.trial(ROW, "asleep", lasts, partial(quiet, run), observers=many)


def quiet(run: Run) -> Sample:
    """Return what PostgreSQL, processors and memory have to do."""
    field, seconds = Field(run.servers), run.plan.still
    with field.open():
        field.fill(HOSTS, run.plan.observed)
        time.sleep(REST)
        before, spent, began = _counters(field), _spent(field), time.monotonic()
        while time.monotonic() - began < seconds:
            time.sleep(0.5)
            run.tell()
        took = time.monotonic() - began
        after, now = _counters(field), _spent(field)
        memory = [one.memory_full_info().pss for one in field.processes()]
        supervisors = [psutil.Process(one.pid) for one in field.hosts.values()]
        beside = sum(one.memory_full_info().pss for one in supervisors)
    return {
        "hosts": HOSTS,
        "seconds": seconds,
        **{
            f"{key}_per_second": round((after[key] - before[key]) / took, 2)
            for key in before
        },
        "cores": {key: round((now[key] - spent[key]) / took, 4) for key in spent},
        "hosts_mb": round(sum(memory) / 2**20, 1),
        "supervisors_mb": round(beside / 2**20, 1),
    }


def _counters(field: Field) -> dict[str, float]:
    # A backend of the measured tells its counters after a second at most.
    time.sleep(1.0)
    found = field.ask(COUNTERS, schema=field.name)
    return {key: float(value) for key, value in found.items()}


def _spent(field: Field) -> dict[str, float]:
    spent = {"hosts": sum(_seconds(one) for one in field.processes())}
    for name, pid in field.servers.server_pids.items():
        if name == "postgresql":
            family = psutil.Process(pid)
            everyone = (family, *family.children(recursive=True))
            spent[name] = sum(_seconds(one) for one in everyone)
    return spent


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
