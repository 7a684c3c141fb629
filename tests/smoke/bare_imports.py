"""What an environment with the declared dependencies alone can import, and run.

Played by ``bare.py`` with the Python of that environment: nothing but the standard
library, celery_pecker and what that declares may be imported here.
"""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

TRANSPORTS = (
    "celery.backends.redis",
    "kombu.transport.pyamqp",
    "kombu.transport.redis",
)
"""What the addresses of brokers and backends make Celery import."""
PACKAGES = ("celery_pecker", "celery_sharding", "throttle")
OPTIONAL = {
    # of the extras; who gets as far as such a module has passed one of the DOORS
    *("flower", "opentelemetry", "prometheus_client", "tornado"),
    # whose code a module counts or interrupts: loaded by those who use them
    *("django", "gevent", "httpcore", "requests", "sqlalchemy"),
}
DOORS = {
    "import celery_pecker.surfaces.metrics": "metrics",
    "import throttle.flower": "metrics",
    "import throttle.metrics": "metrics",
    "from celery_pecker.flower import install; install()": "flower",
    "from celery_pecker.testing import EmbeddedPostgres as P; P()": "embedded",
    "from celery_pecker.testing import EmbeddedRedis as R; R()": "embedded",
    "celery -A app pecker flower": "flower",
    "celery -A app throttle serve": "service",
    "celery -A app beat -S pecker": "otel",
}
"""Where an extra is missed first, and which."""
APP = """
from celery import Celery

app = Celery("app", broker="memory://")
app.conf.pecker_dsn = "postgresql://nobody@127.0.0.1:1/nothing"
app.conf.pecker_tracing = True
app.conf.throttle_limits = {"main": 1}
app.conf.throttle_redis_url = "redis://127.0.0.1:1/0"
"""


def modules() -> list[str]:
    """Return what cannot be imported, though it needs nothing optional."""
    wrong = []
    for transport in TRANSPORTS:
        try:
            importlib.import_module(transport)
        except ImportError as error:
            wrong.append(f"{transport}: {error}")
    for package in map(importlib.import_module, PACKAGES):
        for module in pkgutil.walk_packages(
            package.__path__, f"{package.__name__}.", onerror=lambda _name: None
        ):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] not in OPTIONAL:
                    wrong.append(f"{module.name}: {error}")
            except ValueError as error:
                if "celery-pecker[" not in str(error):
                    wrong.append(f"{module.name}: {error}")
    return wrong


def entry_points() -> list[str]:
    """Return the entry points that do not load and name no extra."""
    wrong = []
    for point in distribution("celery-pecker").entry_points:
        try:
            point.load()
        except ValueError as error:
            optional = point.group == "celery_pecker.flower_pages"
            if not optional or "celery-pecker[" not in str(error):
                wrong.append(f"{point.group} {point.name}: {error}")
        except ImportError as error:
            wrong.append(f"{point.group} {point.name}: {error}")
    return wrong


def doors() -> list[str]:
    """Return where an extra is missed and not named."""
    wrong = []
    with tempfile.TemporaryDirectory() as place:
        Path(place, "app.py").write_text(APP)
        for code, extra in DOORS.items():
            words = ["-c", code]
            if code.startswith("celery "):
                words = ["-m", *code.split()]
            done = subprocess.run(
                [sys.executable, *words],
                cwd=place,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            if not done.returncode or f"celery-pecker[{extra}]" not in done.stderr:
                wrong.append(f"{code}: does not name [{extra}]: {done.stderr[-500:]}")
    return wrong


if __name__ == "__main__":
    if bad := [*modules(), *entry_points(), *doors()]:
        sys.exit("\n".join(bad))
