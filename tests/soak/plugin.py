"""Write what became of each test as soon as it is known: a line of JSON for each.

`PECKER_SOAK_OUTCOMES` names the file. A run that is ended from outside has written
all tests that it came to.
"""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path

import pytest

OUTCOMES = "PECKER_SOAK_OUTCOMES"


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Collect what a test has left open, so that it fails and not a later one."""
    gc.collect()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write a passed call, a skipped set-up, and a failure of any phase."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    if report.failed or report.skipped or report.when == "call":
        line = {"test": report.nodeid, "outcome": report.outcome, "text": ""}
        if report.failed:
            line["text"] = report.longreprtext[-4000:]
        with Path(os.environ[OUTCOMES]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
