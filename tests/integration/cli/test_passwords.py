"""Passwords of settings stay out of what people copy into reports and see on pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.app import utils
from celery.contrib.testing.worker import start_worker

import celery_pecker.worker
from tests.command_line import Line

PASSWORD = "s3same"  # noqa: S105 — of no server
WATCH = {"dsn": f"host=db password={PASSWORD}", "active": 50}
CONF: dict[str, Any] = {
    "pecker_dsn": f"postgresql://app:{PASSWORD}@db/app",
    "pecker_alarms_to": {"duty": f"slack://{PASSWORD}/b/c"},
    "throttle_redis_url": f"redis://:{PASSWORD}@redis/1",
    "throttle_service_url": f"https://gate:{PASSWORD}@gate:8585",
    "throttle_service_token": PASSWORD,
    "throttle_control_token": PASSWORD,
    "throttle_limits": [["main", {"operations": 5000, "watch": WATCH}]],
    "reports_dsn": f"postgresql://app:{PASSWORD}@db/reports",
}
"""Each setting that may hold a password; the last one is named by a `Query`."""
APP = """
import json, os
from celery import Celery

conf = json.loads(os.environ["CONF"])
namespace = os.environ["NAMESPACE"]
app = Celery("shop", broker="memory://")
if namespace:
    settings = {f"{namespace}_{key}".upper(): value for key, value in conf.items()}
    app.config_from_object(settings, namespace=namespace)
else:
    app.conf.update(conf)
"""


@pytest.mark.parametrize("namespace", ["", "CELERY"])
def test_a_report_has_no_passwords(tmp_path: Path, namespace: str) -> None:
    """`celery report` names the settings, also of an app that imports none of ours."""
    (tmp_path / "shop.py").write_text(APP)
    limits = dict(CONF["throttle_limits"])
    for conf in (CONF, {**CONF, "throttle_limits": limits}):
        env = {**os.environ, "CONF": json.dumps(conf), "NAMESPACE": namespace}
        command = [sys.executable, "-m", "celery", "-A", "shop", "report"]
        run = subprocess.run(
            command, env=env, cwd=tmp_path, check=True, capture_output=True, text=True
        )
        assert all(key in run.stdout.lower() for key in conf)
        assert "5000" in run.stdout
        assert PASSWORD not in run.stdout


def test_a_worker_answers_without_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """`inspect conf`, which Flower's page of a worker shows."""
    # The command line, which this module's fixtures import, has hidden them before.
    celerys = getattr(utils.filter_hidden_settings, "without_ours")  # noqa: B009
    monkeypatch.setattr(utils, "filter_hidden_settings", celerys)
    app = Celery("shop", broker="memory://", set_as_current=False)
    # No step of ours starts in this worker: none of these servers is there.
    app.conf.update(CONF)
    celery_pecker.worker.install(app)
    app.steps["worker"].clear()
    with start_worker(app, perform_ping_check=False):
        answers: Any = app.control.inspect(timeout=5.0, limit=1).conf()
    [answer] = answers.values()
    assert {*CONF} <= {*answer}
    assert PASSWORD not in json.dumps(answer)


@pytest.mark.parametrize(
    "dsn", [f"postgresql://app:%{PASSWORD}@db/app", f"host=db password='{PASSWORD}"]
)
def test_doctor_refuses_what_is_no_dsn(
    make_line: Callable[..., Line], dsn: str
) -> None:
    """A raw `%` in a password, and a quote that does not end: a finding each."""
    result = make_line(dsn)("doctor")
    assert result.exit_code == 1
    assert "pecker_dsn is not a PostgreSQL connection string" in result.output
    assert PASSWORD not in result.output
