"""Take out one guard after the other in a copy of the tree; a test must go red.

A guarantee whose guard can be removed without anybody noticing is not tested. Each
entry of the lists beside this module names the guarantee, the text that holds it, what
stands there without it, and the tests that must fail then.

    python -m tests.guards                  all of them, two at a time
    python -m tests.guards throttle:        those whose names have these words
    python -m tests.guards --jobs 4 --resume     go on with what was interrupted
    python -m tests.guards --part 2/8       every eighth of them, from the second one on
    python -m tests.guards --list held      their names, and nothing is run
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from hashlib import sha256
from queue import Queue

from rich.console import Console

from tests.guards import (
    alarms,
    commands,
    django_admin,
    flower_stored,
    following,
    groomer,
    intake,
    observers,
    observers_hosts,
    observers_seen,
    outbox,
    pecker,
    recurrence,
    renaming,
    sharding,
    stored,
    throttle,
    undo,
)
from tests.guards.guard import ROOT, Guard
from tests.guards.slot import Slot

DONE = ROOT / "build" / "guards" / "done.jsonl"
"""What each guard of earlier runs came to, for `--resume`."""
GUARDS = (
    *alarms.GUARDS,
    *pecker.GUARDS,
    *commands.GUARDS,
    *following.GUARDS,
    *intake.GUARDS,
    *outbox.GUARDS,
    *django_admin.GUARDS,
    *flower_stored.GUARDS,
    *groomer.GUARDS,
    *observers.GUARDS,
    *observers_hosts.GUARDS,
    *observers_seen.GUARDS,
    *recurrence.GUARDS,
    *renaming.GUARDS,
    *sharding.GUARDS,
    *stored.GUARDS,
    *throttle.GUARDS,
    *undo.GUARDS,
)


def part_of(guards: Sequence[Guard], part: str) -> Sequence[Guard]:
    """Return the guards of a part, as "2/8"; all parts together have each once."""
    nth, _, parts = part.partition("/")
    if not (nth.isdecimal() and parts.isdecimal() and 1 <= int(nth) <= int(parts)):
        message = f"the part is {part!r}; allowed is 1/8 to 8/8, or of another number"
        raise argparse.ArgumentTypeError(message)
    return guards[int(nth) - 1 :: int(parts)]


def key(guard: Guard) -> str:
    """Return what changes with the guard, its file or its tests."""
    tests = ROOT / guard.tests.partition("::")[0]
    files = [(ROOT / path).read_text(encoding="utf-8") for path in guard.files()]
    texts = [*files, repr(guard)]
    if tests.is_file():
        texts.append(tests.read_text(encoding="utf-8"))
    return sha256("\0".join(texts).encode()).hexdigest()


def known() -> set[str]:
    """Return the guards that were missed in an earlier run, by `key`."""
    if not DONE.exists():
        return set()
    lines = map(json.loads, DONE.read_text(encoding="utf-8").splitlines())
    last = {line["key"]: line["red"] for line in lines}
    return {one for one, red in last.items() if red}


def run(guards: Sequence[Guard], jobs: int, console: Console) -> list[Guard]:
    """Take out each guard, `jobs` at a time; return those that no test misses."""
    slots: Queue[Slot] = Queue()
    unmissed = []
    keys = {guard.name: key(guard) for guard in guards}  # before the tree is copied
    DONE.parent.mkdir(parents=True, exist_ok=True)
    with (
        ExitStack() as stack,
        DONE.open("a", encoding="utf-8") as done,
        ThreadPoolExecutor(jobs) as pool,
    ):
        for _ in range(jobs):
            slots.put(stack.enter_context(Slot()))

        def one(guard: Guard) -> tuple[Guard, bool, str]:
            slot = slots.get()
            try:
                return guard, *slot.red_without(guard)
            finally:
                slots.put(slot)

        running = [pool.submit(one, guard) for guard in guards]
        try:
            for number, future in enumerate(as_completed(running), 1):
                guard, red, reason = future.result()
                word = "red" if red else "NOT MISSED"
                line = f"{number}/{len(guards)} {word}: {guard.name}  [{reason}]"
                console.print(line, markup=False, soft_wrap=True)
                result = {"key": keys[guard.name], "name": guard.name, "red": red}
                done.write(json.dumps({**result, "test": reason}) + "\n")
                done.flush()
                if not red:
                    unmissed.append(guard)
        finally:
            pool.shutdown(cancel_futures=True)
    return unmissed


def main() -> int:
    """Try each guard; the exit code counts those that no test misses."""
    console = Console()
    parser = argparse.ArgumentParser(
        prog="python -m tests.guards",
        description="Take out one guard after the other; a test must go red.",
    )
    parser.add_argument("words", nargs="*", help="only guards whose names have these")
    parser.add_argument("--list", action="store_true", help="names only, run nothing")
    parser.add_argument("--jobs", type=int, default=2, help="so many at a time")
    parser.add_argument(
        "--resume", action="store_true", help="leave out what went red and is unchanged"
    )
    parser.add_argument("--part", default="1/1", help="one part of several, as 2/8")
    options = parser.parse_args()
    wanted = " ".join(options.words)
    guards = [guard for guard in GUARDS if wanted in guard.name]
    if not guards:
        parser.error(f"no guard has {wanted!r} in its name: see --list")
    guards = [*part_of(guards, options.part)]
    if options.resume:
        before = known()
        guards = [guard for guard in guards if key(guard) not in before]
    if options.list:
        for guard in guards:
            console.print(guard.name, markup=False, soft_wrap=True)
        return 0
    unmissed = run(guards, max(1, min(options.jobs, len(guards))), console)
    console.print(f"{len(guards) - len(unmissed)} of {len(guards)} were missed")
    for guard in unmissed:
        console.print(f"not missed: {guard.name}", markup=False, soft_wrap=True)
    return min(len(unmissed), 100)


if __name__ == "__main__":
    raise SystemExit(main())
