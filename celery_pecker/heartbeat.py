"""A sign of life on disk: a probe needs neither the database nor the broker.

Each scheduler of this host writes a reading of the monotonic clock, which all processes
of a host share, into a file of its own, at most once a second, for as long as its loop
turns; in an outage of PostgreSQL too, since a restart would heal nothing. The file goes
when the scheduler was stopped. A file that has become old while its process lives
is a scheduler that hangs or has died within its process; that of a dead process means
nothing and is removed.

``python -m celery_pecker.heartbeat [FOLDER]`` asks without the app, whose import may
take seconds: it ends with 0 if all schedulers that beat there turn, of any app.
"""

import logging
import os
import re
import stat
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.settings import Settings

logger = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two beats, at least."""
STALE = 10.0
"""Seconds without a beat after which a scheduler does not live: it turns every five
seconds at the latest, or as soon as it has given up waiting for a server."""
WAITS = 2.5
"""How many times the timeouts of database and broker a turn may last."""
FORM = "{:020.6f}\n"
"""Always as long: a beat overwrites the one before in one write."""
_UNSAFE = re.compile(r"[^\w.]+")
_OURS = 0o700
_START = 19
"""Place of the start among the kernel's fields of a process after its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveScheduler:
    """A scheduler of this host whose process is there."""

    pid: int
    kind: str
    """beat, worker or local."""
    age: float
    """Seconds since its last beat."""
    stale: bool
    """Whether its loop has not turned for too long."""


class Heartbeat:
    """Beats for one scheduler."""

    def __init__(self, settings: Settings, *, kind: str, clock: Clock) -> None:
        self._folder = folder(settings)
        self._default = settings.heartbeat_dir is None
        self._path = self._folder / f"{_stem(settings)}-{os.getpid()}-{kind}"
        self._clock = clock
        self._start_time = _start_time(os.getpid())
        self._last = float("-inf")
        self._stale_after = stale_after(settings)
        self._failed = False

    def beat(self) -> None:
        """Write a heartbeat, at most once a second; log a disk's error and continue."""
        now = self._clock.monotonic()
        if now - self._last < EVERY:
            return
        self._last = now
        try:
            lines = f"{FORM.format(now)}{self._start_time}\n{self._stale_after}\n"
            self._write(lines.encode())
        except OSError as error:
            if not self._failed:
                logger.warning("pecker: no heartbeat for probes: %s", error)
            self._failed = True

    @property
    def beats(self) -> bool:
        """Whether the last beat was not too long ago."""
        return self._clock.monotonic() - self._last <= self._stale_after

    def stop(self) -> None:
        """Show that this was an end in good order."""
        with suppress(OSError):
            self._path.unlink()

    def _write(self, text: bytes) -> None:
        # NONBLOCK: opening a pipe that no process reads would never return.
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        self._folder.mkdir(mode=_OURS, parents=True, exist_ok=True)
        if self._default:
            _check_private(self._folder)
        beat = os.open(self._path, flags, 0o600)
        try:
            status = os.fstat(beat)
            if (
                not stat.S_ISREG(status.st_mode)
                or status.st_uid != os.geteuid()
                or status.st_nlink > 1
            ):
                raise PermissionError(f"{self._path} is not a file of ours")
            os.write(beat, text)
        finally:
            os.close(beat)


def folder(settings: Settings) -> Path:
    """Return where the schedulers of this host show life."""
    if settings.heartbeat_dir is not None:
        return Path(settings.heartbeat_dir)
    return _usual_folder()


def _usual_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"celery-pecker-{os.getuid()}"


def _check_private(path: Path) -> None:
    """Raise PermissionError where other users may write into our default folder.

    Its name is known, and another user may make it before us: a file removed or put
    there would have probes restart what lives, or leave what hangs.
    """
    status = path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or mode & 0o22:
        raise PermissionError(
            f"{path} (mode {mode:o}, of user {status.st_uid}) must be a folder of user"
            f" {os.geteuid()} that no other may write into; remove it, or set"
            " pecker_heartbeat_dir"
        )


def stale_after(settings: Settings) -> float:
    """Return the seconds without a beat after which a scheduler does not live."""
    waits = WAITS * (settings.database_timeout + settings.broker_timeout)
    return max(STALE, waits)


def live_schedulers(settings: Settings, *, clock: Clock) -> list[LiveScheduler]:
    """Return the schedulers of this app and schema on this host whose process lives.

    Files of dead processes are removed on the way.

    Raises:
        PermissionError: other users may write into the default folder.

    """
    place = folder(settings)
    if settings.heartbeat_dir is None and place.exists():
        _check_private(place)
    stem = f"{_stem(settings)}-"
    return _lives(place, stem, clock, stale_after(settings))


def _lives(
    place: Path, stem: str, clock: Clock, stale_after: float | None = None
) -> list[LiveScheduler]:
    """Return the schedulers whose files begin with this; "": all.

    Without `stale_after` each goes by what its own file says.
    """
    lives: list[LiveScheduler] = []
    for path in sorted(place.glob(f"{stem}*")):
        parts = path.name.removeprefix(stem).rsplit("-", 2)
        if len(parts) != (2 if stem else 3) or not parts[-2].isdecimal():
            continue
        pid, kind = parts[-2:]
        read = _read(path)
        if not _there(int(pid)) or (
            read and read[1] not in ("", _start_time(int(pid)))
        ):
            with suppress(OSError):
                path.unlink()
            continue
        if read is not None:
            age = clock.monotonic() - read[0]
            stale = not 0 <= age <= (stale_after or read[2])
            lives.append(LiveScheduler(pid=int(pid), kind=kind, age=age, stale=stale))
    return lives


def _read(path: Path) -> tuple[float, str, float] | None:
    """Return the last beat, when its process was born, and after what it is stale."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        beat, born, stale, *_ = f"{path.read_text()}\n{STALE}\n".split("\n")
        return float(beat), born, float(stale or STALE)
    except (OSError, ValueError):
        return None  # removed or just made


def _there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _start_time(pid: int) -> str:
    """Return what tells a process from a later one of the same id, "" if unknown.

    Boot and start of the process. A container that starts anew over a folder that
    stays gives old ids to new processes, and a probe would say that one of them hangs.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # no Linux
        return ""
    return f"{boot}:{fields[_START].decode()}"


def _stem(settings: Settings) -> str:
    """Return what the files of this app and schema begin with, and no others."""
    exactly = sha256(f"{settings.app}\0{settings.schema}".encode()).hexdigest()[:8]
    return f"{_UNSAFE.sub('_', f'{settings.app}_{settings.schema}')[:80]}-{exactly}"


def main(words: list[str]) -> int:
    """Print who lives, as `pecker health --live` does; return its exit code."""
    place = Path(words[0]) if words else _usual_folder()
    if not words and place.exists():
        _check_private(place)
    lives = _lives(place, "", SYSTEM)
    for line in described(lives, place):
        print(line)  # noqa: T201 — for who reads why a probe failed
    return int(not lives or any(life.stale for life in lives))


def described(lives: list[LiveScheduler], place: Path) -> list[str]:
    """Return a line for each scheduler, or one that there is none."""
    words = {True: "hangs", False: "lives"}
    return [
        f"{life.kind} {life.pid} {words[life.stale]}, turned {life.age:.1f} s ago"
        for life in lives
    ] or [f"no scheduler of this host shows life in {place}"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
