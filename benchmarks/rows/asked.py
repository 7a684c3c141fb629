"""What one message asks of the servers: statements, connections, Redis commands.

Statements stand in the server's own log, for which the DSN of these schedulers turns on
`log_statement`; `begin` and `commit` count, as each is a round trip. Only the embedded
server's log is read. Commands of Redis are its own count, without those of the one who
takes the messages, and without the push of each message.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from functools import partial
from pathlib import Path

import redis

from benchmarks.plan import overhead
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.schedules.subjects import Subject
from benchmarks.schedules.trial import Trial

ROW = "asked"
ENTRIES = 10
ELSEWHERE = frozenset({"brpop", "rpop", "info", "lpush"})
WARM = 4.0
_ASKED = re.compile(rb"\[(\d+)\] LOG:  (?:statement|execute [^:]+): ")


def run(run: Run) -> None:
    """Measure each of those that are compared."""
    if run.servers.postgres_log is None:
        run.note("asked: the log of a given server is not read: not measured")
        return
    for subject in run.plan.compared:
        run.trial(
            ROW,
            f"{subject}, {ENTRIES} entries",
            run.plan.asked + overhead(subject),
            partial(measure, run, subject, run.servers.postgres_log),
            subject=subject,
        )


def logged(dsn: str) -> str:
    """Return the DSN with every statement in the server's log."""
    joint = "&" if "?" in dsn else "?"
    return f"{dsn}{joint}options=-clog_statement%3Dall"


def measure(run: Run, subject: Subject, log: Path) -> Sample:
    """Return what was asked while so many messages were sent."""
    servers = run.servers
    with (
        Trial(servers, entries=ENTRIES) as trial,
        redis.Redis.from_url(servers.redis) as server,
    ):
        scheduler = trial.start(subject, DSN=logged(servers.dsn))
        trial.wait_until(time.time() + WARM, run.tell)
        began, before, since = log.stat().st_size, _commands(server), time.time()
        trial.wait_until(since + run.plan.asked, run.tell)
        text, after, until = log.read_bytes()[began:], _commands(server), time.time()
        trial.stop(scheduler)
        arrivals = trial.count()
    sent = len(arrivals.between(since, until).arrived)
    if not sent:
        msg = "nothing arrived"
        raise RuntimeError(msg)
    statements = Counter(_ASKED.findall(text))
    commands = {name: after[name] - before[name] for name in after - before}
    return {
        "entries": ENTRIES,
        "messages": sent,
        "statements_per_message": round(statements.total() / sent, 3),
        "connections_per_message": round((len(statements) - 1) / sent, 3)
        if len(statements) > 1
        else 0.0,
        "commands_per_message": round(sum(commands.values()) / sent, 3),
        "commands": dict(Counter(commands).most_common(8)),
    }


def _commands(server: redis.Redis) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, told in server.info("commandstats").items():
        command = name.removeprefix("cmdstat_")
        if command not in ELSEWHERE:
            counts[command] = told["calls"]
    return counts
