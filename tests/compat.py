"""Run the tests that meet Celery, Django, Flower, … on other versions of them.

    python -m tests.compat 5.5 5.6          those versions of Celery and kombu
    python -m tests.compat --quick 5.5      what starts and sends only: three minutes
    python -m tests.compat django-6.1       that version of Django (from Python 3.12 on)
    python -m tests.compat flower-2.0       that version of Flower
    python -m tests.compat redis-6.4        that version of redis-py
    python -m tests.compat sqlalchemy-2.0   that version of SQLAlchemy
    python -m tests.compat postgresql-14    that server, at PECKER_TEST_DSN

Each version has an environment of its own outside of the checkout, made once: Celery,
kombu and what they bring (redis-py among it: 5.2 with 5.5), Django, Flower, redis-py
or SQLAlchemy lie before the packages of the environment that this runs in, which has
all the rest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import psycopg

ROOT = Path(__file__).parents[1]
WHOLE = (
    "tests/unit/publisher",
    "tests/unit/throttle",
    "tests/contract",
    "tests/integration/beat",
    "tests/integration/worker",
    # Celery before 5.7 lowers the prefetch after a loss: less comes back at once
    "--ignore=tests/integration/worker/test_redis_restarts.py",
    "tests/integration/sharding/canvas",
    "tests/integration/throttle/worker",
    "tests/integration/throttle/overflow",
)
QUICK = (
    "tests/unit/publisher",
    "tests/unit/throttle/test_overflow.py",
    "tests/unit/throttle/test_worker_hook.py",
    "tests/contract/publisher/test_same_message.py",
    "tests/contract/publisher/test_token.py",
    "tests/contract/publisher/test_worker.py",
    "tests/integration/sharding/canvas/test_calls.py",
    "tests/integration/worker/test_outcomes.py",
    "tests/integration/throttle/overflow/test_amqp_broker.py",
    "tests/integration/throttle/overflow/test_redis_broker.py",
)
DJANGO = (
    "tests/unit/django",
    "tests/integration/django",
    "tests/integration/deadline/test_other_clients.py",
    "tests/integration/observers/test_start_and_stop.py",
    "tests/integration/outbox/test_plain_calls.py",
    "tests/integration/outbox/test_refused_calls.py",
    "tests/integration/runs/test_fence.py",
    "tests/integration/sharding/canvas/test_django.py",
    "tests/integration/throttle/instrument/test_django.py",
)
FLOWER = (
    "tests/unit/flower",
    "tests/integration/flower",
    "tests/integration/sharding/flower",
    "tests/integration/throttle/flower",
)
REDIS = (
    "tests/contract/publisher",
    "tests/integration/outbox_relay",
    "tests/integration/worker/test_redis_restarts.py",
    "tests/integration/worker/test_outcomes.py",
    "tests/integration/throttle/exchange",
    "tests/integration/throttle/instrument",
    "tests/integration/throttle/overflow",
    "tests/integration/throttle/store",
)
POSTGRESQL = (
    "tests/integration/test_database.py",
    "tests/integration/test_migrations.py",
    "tests/integration/test_schema_check.py",
    "tests/integration/alarms",
    "tests/integration/deadline",
    "tests/integration/metrics",
    "tests/integration/observers",
    "tests/integration/outbox",
    "tests/integration/outbox_relay",
    "tests/integration/runs",
    "tests/integration/schedules",
    "tests/integration/sharding/flow",
    "tests/integration/sharding/ledger",
    "tests/integration/sharding/reading",
    "tests/integration/stored_schedules",
)
SQLALCHEMY = (
    "tests/integration/cli/test_other_schedulers_read.py",
    "tests/integration/deadline/test_black_holes.py",
    "tests/integration/deadline/test_other_clients.py",
    "tests/integration/observers/test_start_and_stop.py",
    "tests/integration/outbox/test_many_messages.py",
    "tests/integration/outbox/test_odd_uses.py",
    "tests/integration/outbox/test_refused_calls.py",
    "tests/integration/outbox/test_transactions.py",
    "tests/integration/runs/test_fence.py",
    "tests/integration/throttle/instrument/test_sqlalchemy.py",
)
PSYCOPG = (
    "tests/integration/test_database.py",
    "tests/integration/deadline",
    "tests/integration/outbox",
    "tests/integration/runs",
    "tests/integration/throttle/instrument/test_psycopg.py",
)
OTHERS = {
    "django": DJANGO,
    "flower": FLOWER,
    "postgresql": POSTGRESQL,
    "psycopg": PSYCOPG,
    "redis": REDIS,
    "sqlalchemy": SQLALCHEMY,
}
"""All that meets them; tests/browser is run where a browser is, with that Python."""
SAY = (
    "from importlib.metadata import version; print({name: version(name) for name in"
    " ('celery', 'kombu', 'redis', 'psycopg', 'django', 'flower', 'tornado',"
    " 'sqlalchemy')})"
)


def named(version: str) -> dict[str, str]:
    """Return what is installed for a version, by what it is called in pip."""
    name, _, number = version.rpartition("-")
    if name == "psycopg":  # its C half is of the same version
        name = "psycopg[binary]"
    return {name: number} if name else {f"{one}[redis]": number for one in OURS}


OURS = ("celery", "kombu")


def tests_of(version: str, *, quick: bool) -> tuple[str, ...]:
    """Return the tests that a version is asked for."""
    name, _, _ = version.rpartition("-")
    if not name:
        return QUICK if quick else WHOLE
    if version == "sqlalchemy-1.4":  # the others use psycopg 3, which it lacks
        return SQLALCHEMY[-1:]
    return OTHERS[name]


def environment(version: str) -> Path:
    """Return the Python of an environment with that version."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = version if "-" in version else f"celery-{version}"
    folder = Path(base) / "celery-pecker" / f"{name}-py{python}"
    program = folder / "bin" / "python"
    packages = folder / "lib" / f"python{python}" / "site-packages"
    rest = packages / "zz_rest.pth"
    if not rest.exists():
        venv.create(folder, clear=True)
        wanted = [f"{name}=={number}.*" for name, number in named(version).items()]
        pip = [sys.executable, "-m", "pip", "--python", str(program), "install"]
        how = ["-qq", "--disable-pip-version-check", "--only-binary", ":all:"]
        if subprocess.run([*pip, *how, *wanted], check=False).returncode:
            sys.exit(f"{' and '.join(wanted)}: not to be had for Python {python}")
    # Written last, and each time: another checkout may have used it meanwhile. Not a
    # plain line with the path: the .pth files in it are to be read, too.
    here = sysconfig.get_path("purelib")
    rest.write_text(f"import site; site.addsitedir({here!r})\n", encoding="utf-8")
    return program


def ask_server(version: str) -> None:
    """Exit unless the server of the tests is a PostgreSQL of that version."""
    dsn = os.environ.get("PECKER_TEST_DSN")
    if not dsn:
        sys.exit(f"{version}: PECKER_TEST_DSN does not say where it is")
    with psycopg.connect(dsn) as connection:
        major = connection.info.server_version // 10_000
    if version != f"postgresql-{major}":
        sys.exit(f"{version}: the server of PECKER_TEST_DSN is PostgreSQL {major}")


def program_of(version: str) -> Path:
    """Return the Python that runs the tests of a version."""
    if version.startswith("postgresql-"):
        ask_server(version)
        return Path(sys.executable)
    return environment(version)


def main() -> int:
    """Run the tests of each version; return 1 if one of them was red."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat")
    parser.add_argument("versions", nargs="+", help="5.5, django-6.1, redis-6.4")
    parser.add_argument("--quick", action="store_true", help="a few of the tests")
    parser.add_argument("--jobs", default="4", help="processes")
    options = parser.parse_args()
    red = []
    for version in options.versions:
        program = program_of(version)
        subprocess.run([program, "-c", SAY], check=True)
        pytest = [program, "-m", "pytest", "-q", "-n", options.jobs]
        tests = tests_of(version, quick=options.quick)
        run = subprocess.run([*pytest, "--tb=native", *tests], cwd=ROOT, check=False)
        if run.returncode:
            red.append(version)
    if red:
        sys.stderr.write(f"red with {' '.join(red)}\n")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
