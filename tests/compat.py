"""Run the tests that meet Celery on other versions of Celery and kombu.

    python -m tests.compat 5.5 5.6          those versions, one after the other
    python -m tests.compat --quick 5.5      what starts and sends only: three minutes

Each version has an environment of its own outside of the checkout, made once: Celery,
kombu and what they bring (redis-py among it) lie before the packages of the
environment that this runs in, which has all the rest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

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


def environment(version: str) -> Path:
    """Return the Python of an environment with that version of Celery and kombu."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = Path(base) / "celery-pecker" / f"celery-{version}-py{python}"
    program = folder / "bin" / "python"
    packages = folder / "lib" / f"python{python}" / "site-packages"
    rest = packages / "zz_rest.pth"
    if not rest.exists():
        venv.create(folder, clear=True)
        wanted = [f"{name}[redis]=={version}.*" for name in ("celery", "kombu")]
        pip = [sys.executable, "-m", "pip", "--python", str(program), "install"]
        how = ["-qq", "--disable-pip-version-check", "--only-binary", ":all:"]
        subprocess.run([*pip, *how, *wanted], check=True)
    # Written last, and each time: another checkout may have used it meanwhile. Not a
    # plain line with the path: the .pth files in it are to be read, too.
    here = sysconfig.get_path("purelib")
    rest.write_text(f"import site; site.addsitedir({here!r})\n", encoding="utf-8")
    return program


def main() -> int:
    """Run the tests of each version; return 1 if one of them was red."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat")
    parser.add_argument("versions", nargs="+", help="such as 5.5")
    parser.add_argument("--quick", action="store_true", help="a few of the tests")
    parser.add_argument("--jobs", default="2", help="processes")
    options = parser.parse_args()
    red = []
    for version in options.versions:
        program = environment(version)
        what = (
            "from celery import __version__ as c; from kombu import __version__ as k;"
        )
        subprocess.run(
            [program, "-c", f"{what} print('celery', c, 'kombu', k)"], check=True
        )
        pytest = [program, "-m", "pytest", "-q", "-n", options.jobs, "--reruns", "1"]
        tests = QUICK if options.quick else WHOLE
        run = subprocess.run([*pytest, "--tb=native", *tests], cwd=ROOT, check=False)
        if run.returncode:
            red.append(version)
    if red:
        sys.stderr.write(f"red with Celery {' '.join(red)}\n")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
