"""The end of a server whose owner has gone, however it went.

An owner that is killed with SIGKILL cleans nothing up, and a signal on the parent's
death (PR_SET_PDEATHSIG) is known to Linux only, is bound to the *thread* that started
the child, and is not seen by a frozen one. So each embedded server has a small
companion that reads a pipe: end of file means that the owner is gone. It then ends the
server, thawing it first, and removes its directory.

The file is run by its path, without site-packages: only the standard library here.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

GRACE = 3.0
"""Seconds that an orphaned server may use to end by itself."""
DIES_WITHIN = 30.0
"""Seconds that what was killed may need on a busy machine."""


def process_tree(pid: int) -> list[int]:
    """Return the process and its children, parent first.

    PostgreSQL makes each backend the leader of a group of its own, so that a signal
    to the group of the postmaster reaches no other process.
    """
    return [pid, *(child for child, parent in _parents() if parent == pid)]


def _parents() -> list[tuple[int, int]]:
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        listing = subprocess.run(
            ["/bin/ps", "-A", "-o", "pid=,ppid="],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        rows = (line.split() for line in listing.splitlines())
        return [(int(child), int(parent)) for child, parent in rows]
    parents = []
    for entry in proc.iterdir():
        if entry.name.isdigit():
            # The process may end between the listing and the reading.
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text()
                # "pid (name) state ppid …": the name may hold spaces and brackets.
                parents.append(
                    (int(entry.name), int(stat.rpartition(")")[2].split()[1]))
                )
    return parents


def send(pid: int, signum: int) -> None:
    """Send the signal; a process that has ended meanwhile is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)


def thaw(pid: int) -> None:
    """Let the process and its children run (again)."""
    for member in reversed(process_tree(pid)):
        send(member, signal.SIGCONT)


def kill_tree(pid: int) -> None:
    """Kill the process and its children; none outlives another for long.

    Frozen first: a postmaster that sees a backend die would start crash recovery, and
    backends that outlive the postmaster keep the data directory busy: on a busy machine
    they need a while to die, and the next start would be refused.
    """
    send(pid, signal.SIGSTOP)
    members = process_tree(pid)
    for member in members:
        send(member, signal.SIGKILL)
    deadline = time.monotonic() + DIES_WITHIN
    while not all(map(_gone, members)) and time.monotonic() < deadline:
        time.sleep(0.005)


def _gone(pid: int) -> bool:
    """Return whether it runs no more, also where its end was not collected."""
    if Path("/proc/self/stat").exists():
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
    else:
        state = subprocess.run(  # macOS: a signal reaches what has ended, too
            ["/bin/ps", "-o", "stat=", "-p", str(pid)],
            check=False,
            capture_output=True,
            text=True,
        ).stdout.strip()
    return state[:1] in {"", "Z", "X"}


def bury(pid: int, ending: int, directory: str) -> None:
    """End the orphaned server and remove its directory."""
    if pid:
        thaw(pid)
        send(pid, ending)
        deadline = time.monotonic() + GRACE
        while not _gone(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        kill_tree(pid)
    shutil.rmtree(directory, ignore_errors=True)


def main(directory: str, ending: str) -> None:
    """Follow the pid that each line names; "bye" means that there is nothing to do."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    pid = 0
    for line in sys.stdin:
        if line.strip() == "bye":
            return
        pid = int(line)
    bury(pid, int(ending), directory)


if __name__ == "__main__":
    main(*sys.argv[1:])
