"""Memory that a worker shares with the processes of its pool.

Processes that are forked have what was mapped before. Fresh interpreters (start method
`spawn`) map a file, whose path an environment variable tells them.
"""

import atexit
import mmap
import os
import tempfile
from contextlib import suppress
from pathlib import Path


def make(size: int, *, variable: str = "") -> mmap.mmap:
    """Return so many zero bytes; with a variable, fresh interpreters may `join`."""
    if not variable:
        return mmap.mmap(-1, size)
    number, name = tempfile.mkstemp(prefix="celery-pecker-")
    try:
        os.ftruncate(number, size)
        memory = mmap.mmap(number, size)
    finally:
        os.close(number)
    os.environ[variable] = name
    # Not sooner: a process that replaces another maps it, too. Killed, it stays behind.
    atexit.register(_remove, Path(name), os.getpid())
    return memory


def join(variable: str) -> mmap.mmap | None:
    """Return what the parent made under that variable; None where it made nothing."""
    name = os.environ.get(variable)
    if not name:
        return None
    with suppress(FileNotFoundError), Path(name).open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)
    return None


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # a fork has the same list of what is to be done at exit
        path.unlink(missing_ok=True)
