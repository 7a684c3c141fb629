"""Take out one guard after the other in a copy of the tree; a test must go red.

A guarantee whose guard can be removed without anybody noticing is not tested. Each line
below names the invariant (docs/explanation/invariants.md), the text that holds it, what
stands there without it, and the tests that must fail then.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
CLAIMS = "tests/integration/schedules/test_claim.py"
REPLICAS = "tests/integration/schedules"
PAUSE = f"{REPLICAS}/test_pause.py"
ASKED = f"{REPLICAS}/test_asked.py"
HISTORY = "tests/integration/history"
MACHINE = "tests/property/test_claim_on_real_sql.py"
SQL = "celery_pecker/sql/schedules.sql"
STRIKES = "tests/unit/deadline/test_enforcement.py"
BLACK_HOLES = "tests/integration/deadline/test_black_holes.py"
RUNS = "tests/integration/runs/test_guard.py"
LOCAL = "tests/integration/local/test_runner.py"
FENCE = "tests/integration/runs/test_fence.py"
WORKERS = "tests/integration/worker"


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard, and who would miss it."""

    name: str
    file: str
    text: str
    without: str
    tests: str
    also: tuple[str, str] | None = None
    """A second place that holds the same, for its own reason."""


GUARDS = (
    Guard(
        "epoch rises with every claim (I3)",
        SQL,
        """epoch = greatest(
            task.epoch + 1,
            (extract(epoch from due.now) * 1000000)::bigint),""",
        "epoch = task.epoch,",
        CLAIMS,
    ),
    Guard(
        "epoch survives a failover that lost grants (I3)",
        SQL,
        """epoch = greatest(
            task.epoch + 1,
            (extract(epoch from due.now) * 1000000)::bigint),""",
        "epoch = task.epoch + 1,",
        CLAIMS,
    ),
    Guard(
        "a confirmation names its epoch (I3)",
        SQL,
        " and pending.epoch = given.epoch\n",
        "\n",
        CLAIMS,
        also=("    and pending.epoch = sent.epoch\n", ""),
    ),
    Guard(
        "era: a clock that stepped back is noticed (I1)",
        SQL,
        "+ wanted.ahead * interval '1 microsecond' then true",
        "+ wanted.ahead * interval '1 microsecond' then false",
        f"{REPLICAS}/test_misfire_and_clock.py",
    ),
    Guard(
        "era: slots of the new era are new slots (I1, I5)",
        SQL,
        "era = task.era + due.stepped::integer,",
        "era = task.era,",
        MACHINE,
    ),
    Guard(
        "SKIP LOCKED: a loser never waits (I4)",
        SQL,
        "            for update skip locked\n        ) as held,",
        "            for update\n        ) as held,",
        CLAIMS,
    ),
    Guard(
        "a slot is taken only when due (I5)",
        SQL,
        "+ wanted.period * interval '1 microsecond' <= clock.now",
        "<= clock.now",
        MACHINE,
    ),
    Guard(
        "a computed slot is taken from the row that was seen (I5)",
        SQL,
        "task.executed_at = wanted.seen\n                        and ",
        "",
        CLAIMS,
    ),
    Guard(
        "trust window: a claim given up by its sender takes nothing (I2)",
        SQL,
        "and clock.now < %(until)s::timestamptz\n                and case",
        "and case",
        MACHINE,
    ),
    Guard(
        "trust window: what a frozen holder has is dropped (I2)",
        "celery_pecker/schedules/outgoing.py",
        "slot.until_us) > now_us:",
        "slot.until_us):",
        f"{REPLICAS}/test_pace.py",
    ),
    Guard(
        "trust window: asked once more right before the write (I2)",
        "celery_pecker/publisher/connection.py",
        "if self.trust.closed(self._clock.monotonic()):",
        "if False:",
        "tests/contract/publisher/test_trust.py",
    ),
    Guard(
        "whatever fails in the middle, no entry falls asleep",
        "celery_pecker/schedules/service.py",
        """            except BaseException:
""",
        """            except DatabaseUnavailable:
""",
        f"{REPLICAS}/test_failures.py",
    ),
    Guard(
        "without a token nothing uncertain is tried again",
        "celery_pecker/schedules/outgoing.py",
        "if error.retry_safe:",
        "if True:",
        f"{REPLICAS}/test_broker_away.py",
    ),
    Guard(
        "with a token what is uncertain is tried again",
        "celery_pecker/schedules/outgoing.py",
        "if error.retry_safe:",
        "if False:",
        f"{REPLICAS}/test_broker_away.py",
    ),
    Guard(
        "a claim without answer is looked up",
        "celery_pecker/schedules/service.py",
        "found = self._doubts.resolve()",
        "found: list[Slot] = []",
        f"{REPLICAS}/test_failures.py",
    ),
    Guard(
        "nothing is claimed that could not be sent",
        "celery_pecker/schedules/outgoing.py",
        "            return False\n        return True",
        "            return True\n        return True",
        f"{REPLICAS}/test_broker_away.py",
    ),
    Guard(
        "token: the broker ignores a second copy of a batch",
        "celery_pecker/publisher/push.lua",
        "'NX', ",
        "",
        "tests/contract/publisher",
    ),
    Guard(
        "a run starts once (I13)",
        "celery_pecker/sql/runs.sql",
        "excluded.attempt > fence.attempt and excluded.epoch >= fence.epoch",
        "true",
        RUNS,
    ),
    Guard(
        "a slot does not start again after a younger one (I13)",
        "celery_pecker/sql/runs.sql",
        "and (%(asked)s or",
        "and (true or",
        RUNS,
    ),
    Guard(
        "a run that is late does not start (I13)",
        "celery_pecker/sql/runs.sql",
        "where clock.now < %(deadline)s::timestamptz\n",
        "where true\n",
        RUNS,
    ),
    Guard(
        "a run that is overtaken does not start (I13)",
        "celery_pecker/sql/runs.sql",
        "where claimed.epoch > %(epoch)s",
        "where false",
        RUNS,
    ),
    Guard(
        "trust window: what stood still after the start check does not run (I2)",
        "celery_pecker/runs/guard.py",
        "if self._clock.monotonic() >= ends:\n                    self._refuse",
        "if False:\n                    self._refuse",
        RUNS,
    ),
    Guard(
        "a guarded write of a run that was overtaken is refused (I3)",
        "celery_pecker/sql/runs.sql",
        "where task.name = %(name)s and task.epoch > %(epoch)s",
        "where false",
        FENCE,
    ),
    Guard(
        "a guarded write of an earlier attempt is refused (I3)",
        "celery_pecker/sql/runs.sql",
        "where (excluded.epoch, excluded.attempt) >= (fence.epoch, fence.attempt)",
        "",
        FENCE,
    ),
    Guard(
        "the server ends a guarded transaction at the deadline (I9)",
        "celery_pecker/sql/runs.sql",
        "set_config('transaction_timeout', left_ms::text, true)",
        "'0'",
        FENCE,
        also=("least(left_ms, idle_ms)::text", "'0'"),
    ),
    Guard(
        "a process of a pool holds none of the scheduler's connections",
        "celery_pecker/replica/replica.py",
        "for replica in [*_REPLICAS]:",
        "for replica in ():",
        f"{WORKERS}/test_schedulers.py",
    ),
    Guard(
        "a worker does not live on without its scheduler (I12)",
        "celery_pecker/worker/replicas.py",
        "state.should_stop = EX_FAILURE",
        "state.should_stop = None",
        f"{WORKERS}/test_refusals.py",
    ),
    Guard(
        "a worker that was told to stop wins nothing more, whatever Celery waits for",
        "celery_pecker/worker/scheduler_step.py",
        "self._on_signal, sender=parent.hostname, weak=False",
        "self._on_signal, sender=object(), weak=False",
        f"{WORKERS}/test_ends.py",
    ),
    Guard(
        "the deadline ends the task, and brings about no retry",
        "celery_pecker/runs/guard.py",
        "task._orig_run = past_autoretry(task, inner)",
        "pass",
        RUNS,
    ),
    Guard(
        "a paused entry's slots are not run",
        "celery_pecker/schedules/service.py",
        "paused if win.paused else slots",
        "slots",
        PAUSE,
    ),
    Guard(
        "a paused entry's slots are not counted as missed",
        SQL,
        "case when task.paused then 0 else due.passed end",
        "due.passed",
        PAUSE,
    ),
    Guard(
        "a paused entry's slots are not pending",
        SQL,
        "where kept and not paused",
        "where kept",
        PAUSE,
    ),
    Guard(
        "a paused slot whose claim had no answer is not run",
        "celery_pecker/schedules/doubts.py",
        "if not row.paused:",
        "if True:",
        PAUSE,
    ),
    Guard(
        "a run is taken only from the row that was read (I5)",
        SQL,
        "                and row.epoch = wanted.epoch\n",
        "",
        ASKED,
    ),
    Guard(
        "a run is taken once (I5)",
        SQL,
        "                and asked.epoch = 0\n",
        "",
        ASKED,
        also=("                and row.epoch = wanted.epoch\n", ""),
    ),
    Guard(
        "a take raises the epoch of the row (I3)",
        SQL,
        "        task.epoch + 1, (extract(epoch from held.now) * 1000000)::bigint)",
        "        task.epoch, 1)",
        ASKED,
    ),
    Guard(
        "a run that was sent rests until its deadline",
        "celery_pecker/schedules/outgoing.py",
        "done = self.rested if rests else self.confirmed",
        "done = self.confirmed",
        ASKED,
    ),
    Guard(
        "a run waits for the last slot's deadline",
        "celery_pecker/schedules/asking.py",
        "    if free_us > now_us:\n",
        "    if False:\n",
        ASKED,
    ),
    Guard(
        "a run ends before the next slot",
        "celery_pecker/schedules/asking.py",
        "ends_us = min(now_us + timeout_us, next_us)",
        "ends_us = now_us + timeout_us",
        ASKED,
    ),
    Guard(
        "a take is not mistaken for a claim without answer",
        "celery_pecker/schedules/doubts.py",
        " and row.executed_us != due_us",
        "",
        ASKED,
    ),
    Guard(
        "a late report takes no old page's place",
        "celery_pecker/history/recorder.py",
        "first_us = max(due_us, old.first_us + 1)",
        "first_us = due_us",
        HISTORY,
    ),
    Guard(
        "the history is bounded in its table (I9)",
        "celery_pecker/history/recorder.py",
        'database.change("prune_history"',
        'print("prune_history"',
        HISTORY,
    ),
    Guard(
        "the history is bounded in memory (I9)",
        "celery_pecker/history/recorder.py",
        "if len(self._waiting) >= WAITING:",
        "if False:",
        HISTORY,
    ),
    Guard(
        "the history waits for nobody (I4)",
        "celery_pecker/sql/history.sql",
        "for update of page skip locked",
        "for update of page",
        HISTORY,
    ),
    Guard(
        "the history is written while nothing is due",
        "celery_pecker/history/scribe.py",
        "if now + MARGIN > self._until and now < overdue:",
        "if False:",
        HISTORY,
    ),
    Guard(
        "reports of a slot are merged forward only (I7)",
        "celery_pecker/history/merge.py",
        "top=max(one.top, other.top, key=_weight)",
        "top=other.top",
        "tests/property/test_merge.py",
    ),
    Guard(
        "a local run does not start once its deadline is over (I2)",
        "celery_pecker/local/runner.py",
        "if deadline.remaining() == 0.0:",
        "if False:",
        LOCAL,
    ),
    Guard(
        "a local slot is not started once trust in it is over (I2)",
        "celery_pecker/local/runner.py",
        "elif began >= order.latest:",
        "elif False:",
        LOCAL,
    ),
    Guard(
        "a local deadline counts from before the clock was asked (I2)",
        "celery_pecker/lease.py",
        "moment = instant_us / SECOND - self._high",
        "moment = instant_us / SECOND - self._low",
        "tests/unit/test_lease.py",
    ),
    Guard(
        "what still runs in one worker is left to the others",
        "celery_pecker/local/runner.py",
        "return names if behind else [order.name for order in still]",
        "return names if behind else []",
        "tests/integration/local/test_replicas.py",
    ),
    Guard(
        "one local run of an entry at a time",
        "celery_pecker/local/runner.py",
        "if other is not None:",
        "if False:",
        LOCAL,
    ),
    Guard(
        "no local run waits for a result backend",
        "celery_pecker/local/order.py",
        '"ignore_result": True,',
        '"ignore_result": False,',
        LOCAL,
    ),
    Guard(
        "no failed local run waits for a result backend",
        "celery_pecker/local/traced.py",
        "store_errors=False",
        "store_errors=True",
        LOCAL,
    ),
    Guard(
        "a local run publishes no retry",
        "celery_pecker/local/traced.py",
        "    refuse_retries(task)\n",
        "",
        LOCAL,
    ),
    Guard(
        "nothing that a task raises ends its thread (I12)",
        "celery_pecker/foreign.py",
        "except BaseException as error:",
        "except Exception as error:",
        LOCAL,
    ),
    Guard(
        "events that wait for the broker are bounded (I9)",
        "celery_pecker/local/teller.py",
        "if len(self._events) >= self._most:",
        "if False:",
        "tests/integration/local/test_teller.py",
    ),
    Guard(
        "deadline: a strike leaves the code alone that sets deadlines",
        "celery_pecker/deadline/enforcement/alarm.py",
        "        if _is_ours(frame):",
        "        if False:",
        STRIKES,
    ),
    Guard(
        "deadline: a strike that was swallowed comes again",
        "celery_pecker/deadline/striker.py",
        "if self.budget is budget and handled and now - self.since < CLEAN_UP:",
        "if self.budget is budget:",
        STRIKES,
    ),
    Guard(
        "deadline: a loop that swallows every exception is ended",
        "celery_pecker/deadline/striker.py",
        "monotonic() > whole.at + LAST",
        "False",
        STRIKES,
    ),
    Guard(
        "deadline: a stricter bound of the session stays",
        "celery_pecker/deadline/clients/psycopg.py",
        "(name, min(most, theirs))",
        "(name, most)",
        "tests/integration/deadline/test_psycopg.py",
    ),
    Guard(
        "a crontab's run has to end before its next slot",
        "celery_pecker/schedules/wanting.py",
        "ends_us = min(deadline_us, recurrence.next(win.due_us, sent_us))",
        "ends_us = deadline_us",
        "tests/integration/schedules/test_misfire_and_clock.py",
    ),
    Guard(
        "a slot that is sent again is above all of its entry (I3)",
        "celery_pecker/sql/schedules.sql",
        "(select task.epoch + 1 from {schema}.pecker_tasks as task",
        "(select 0 from {schema}.pecker_tasks as task",
        "tests/integration/schedules/test_at_least_once.py",
    ),
    Guard(
        "a header named headers hides no run from its start check",
        "celery_pecker/runs/guard.py",
        "header, inherited = beside.get(headers.PECKER), beside.get(headers.DEADLINE)",
        "header = inherited = None",
        RUNS,
    ),
    Guard(
        "what a library makes of a strike is DeadlineExceeded again",
        "celery_pecker/runs/ending.py",
        "if isinstance(cause, DeadlineExceeded):",
        "if False:",
        RUNS,
    ),
    Guard(
        "deadline: a clean-up is not struck in its middle",
        "celery_pecker/deadline/striker.py",
        "if self.budget is budget and handled and now",
        "if False and handled and now",
        STRIKES,
    ),
    Guard(
        "deadline: nothing is committed after it",
        "celery_pecker/deadline/clients/psycopg.py",
        """            yield transaction
            check()
""",
        """            yield transaction
""",
        "tests/integration/deadline/test_psycopg.py",
    ),
    Guard(
        "deadline: a wait that trickles ends all the same",
        "celery_pecker/deadline/clients/sockets.py",
        "    if own is not None and own <= left:",
        "    if own is not None:",
        BLACK_HOLES,
    ),
    Guard(
        "deadline: retries and their pauses end with it",
        "celery_pecker/deadline/clients/redis.py",
        """                if over:
                    raise budget.exceeded() from error
""",
        "",
        BLACK_HOLES,
    ),
)


def red_without(guard: Guard) -> tuple[bool, str]:
    """Whether a test fails once the guard is gone, and what pytest said."""
    with tempfile.TemporaryDirectory(prefix="pecker-guards-") as folder:
        copy = Path(folder)
        for part in ("celery_pecker", "tests", "pyproject.toml"):
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(
                    source, copy / part, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                shutil.copy(source, copy / part)
        file = copy / guard.file
        before = file.read_text(encoding="utf-8")
        if before.count(guard.text) < 1:
            return False, f"the guard is not in {guard.file} any more: name it anew"
        after = before.replace(guard.text, guard.without)
        if guard.also:
            after = after.replace(*guard.also)
        file.write_text(after, encoding="utf-8")
        run = subprocess.run(  # our own tests
            [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", guard.tests],
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
        )
    failed = [line for line in run.stdout.splitlines() if line.startswith("FAILED")]
    if run.returncode == 1 and failed:
        return True, failed[0].split(" - ")[0].removeprefix("FAILED ")
    if "Timeout" in run.stdout + run.stderr:
        return True, f"{guard.tests}, which never ends"
    return False, (run.stdout + run.stderr)[-300:]


def main() -> int:
    """Try every guard; the exit code counts those that nobody missed."""
    wanted = " ".join(sys.argv[1:])
    table = Table("guard taken out", "", "test that went red")
    missing = 0
    console = Console()
    for guard in GUARDS:
        if wanted not in guard.name:
            continue
        with console.status(f"without: {guard.name}"):
            red, said = red_without(guard)
        missing += not red
        table.add_row(guard.name, "red" if red else "[bold]NOT MISSED[/]", said)
    console.print(table)
    return missing


if __name__ == "__main__":
    raise SystemExit(main())
