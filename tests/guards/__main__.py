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
SERVICE = "tests/integration/schedules/test_service.py"
MACHINE = "tests/property/test_claim_on_real_sql.py"
SQL = "celery_pecker/sql/schedules.sql"


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
        SERVICE,
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
        SERVICE,
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
        SERVICE,
    ),
    Guard(
        "without a token nothing uncertain is tried again",
        "celery_pecker/schedules/outgoing.py",
        "if error.retry_safe:",
        "if True:",
        SERVICE,
    ),
    Guard(
        "with a token what is uncertain is tried again",
        "celery_pecker/schedules/outgoing.py",
        "if error.retry_safe:",
        "if False:",
        SERVICE,
    ),
    Guard(
        "a claim without answer is looked up",
        "celery_pecker/schedules/service.py",
        "found = self._doubts.resolve()",
        "found: list[Slot] = []",
        SERVICE,
    ),
    Guard(
        "nothing is claimed that could not be sent",
        "celery_pecker/schedules/outgoing.py",
        "            return False\n        return True",
        "            return True\n        return True",
        SERVICE,
    ),
    Guard(
        "token: the broker ignores a second copy of a batch",
        "celery_pecker/publisher/push.lua",
        "'NX', ",
        "",
        "tests/contract/publisher",
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
