"""Takes the pictures of sharded jobs: ``python -m tests.browser.sharding_scene``.

Real jobs on real workers, stopped in the middle of the largest.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis, eventually
from celery_sharding.cli.watch import Screen
from celery_sharding.ledger import at
from celery_sharding.model import Stage
from example_project.processes import ProcessContainer
from tests.browser.chromium import chromium
from tests.integration.flower.site import Site
from tests.integration.sharding.flower.scene import WITH_TASKS

TARGET = Path(__file__).parents[2] / "docs" / "_static"
WORKERS = 2
APP = """
import time
from celery import Celery
from celery_sharding import FailFast, Isolate, Sharding

app = Celery("shop", broker={broker!r}, backend={broker!r})
app.conf.update(**{conf!r})
sharding = Sharding(app)

def run(shard, seconds, bad=0):
    for item in shard:
        time.sleep(seconds)
        if bad and item % bad == bad - 1:
            raise ValueError(f"row {{item}}: no country has the code 'ZZ'")
        shard.ok(item)

@sharding.task(name="shop.import_airports", size=(25, 25), concurrency=8)
def airports(shard):
    run(shard, 0.003, 997)

@airports.pre_process
def plan(job, rows):
    return [[*range(part)] for part in (rows // 40, rows // 8, rows)]

@sharding.task(name="shop.send_invoices", size=(20, 20), concurrency=4)
def invoices(shard):
    run(shard, 0.0002)

@sharding.task(name="shop.close_ledger", size=(10, 10), on_error=FailFast())
def ledger(shard):
    run(shard, 0.001, 60)
"""


class Shop:
    """A company's app, its workers, and Flower."""

    def __init__(self, stack: ExitStack) -> None:
        self.dsn = stack.enter_context(EmbeddedPostgres(fast=True)).dsn
        redis = stack.enter_context(EmbeddedRedis(fast=True))
        migrate(self.dsn, schema="public")
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        conf = {
            "pecker_dsn": self.dsn,
            "pecker_worker": ["scheduler"],
            "worker_prefetch_multiplier": 1,
        }
        code = APP.format(broker=redis.url, conf=conf)
        (self.folder / "shop.py").write_text(code)
        self.site = Site(
            folder=self.folder, broker_url=redis.url, conf={"pecker_dsn": self.dsn}
        )
        stack.callback(self.site.close)
        self.site.start(before=WITH_TASKS, env={"FLOWER_UNAUTHENTICATED_API": "true"})
        self.app = self._app()
        stack.callback(self.app.close)
        stack.callback(at(self.app, role="scene").close)
        for number in range(1, WORKERS + 1):
            self._worker(stack, f"worker{number}@node-{number}")

    def _app(self) -> Any:
        spec = importlib.util.spec_from_file_location("shop", self.folder / "shop.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.app

    def _worker(self, stack: ExitStack, name: str) -> None:
        process = ProcessContainer(
            [
                *(sys.executable, "-m", "tests.lean", "-A", "shop", "worker"),
                *("-c", "4", "-P", "threads", "-n", name, "-l", "info"),
            ],
            name=name.partition("@")[0],
            cwd=self.folder,
        )
        stack.callback(process.remove)
        process.start()
        eventually(lambda: "ready." in process.life_log(), 60.0, "the worker is ready")

    def begin(self, name: str, *given: Any) -> str:
        """Return the task id of a job that was just called."""
        return str(self.app.tasks[f"shop.{name}"].delay(*given).id)

    def until(self, task_id: str, fraction: float) -> None:
        """The job is that far, or has ended."""
        reading = at(self.app, role="scene").reading

        def there() -> bool:
            row = reading.job(task_id)
            ended = row.stage is Stage.ENDED
            return ended or row.progress().fraction >= fraction > 0

        eventually(there, 120.0, f"{task_id} is at {fraction}")


def draw_bars(shop: Shop, task_id: str) -> None:
    """The picture of the terminal is new."""
    reading = at(shop.app, role="scene").reading
    row = reading.job(task_id)
    screen = Screen()
    console = Console(record=True, width=118, force_terminal=True, highlight=False)
    console.print(screen.drawn(row, reading.layers(row.leading)))
    title = "celery -A shop sharding watch"
    console.save_svg(str(TARGET / "sharding-watch.svg"), title=title)


def main() -> None:
    """The pictures are new."""
    with ExitStack() as stack:
        shop = Shop(stack)
        for name, given in (
            ("send_invoices", [*range(2_000)]),
            ("close_ledger", [*range(500)]),
            ("import_airports", 2_000),
        ):
            shop.until(shop.begin(name, given), 0)
        large = shop.begin("import_airports", 40_000)
        driver = stack.enter_context(chromium(1400, 720))
        live = "return document.getElementById('pecker-live').textContent"
        shop.until(large, 0.4)
        for path, file, high in (
            ("/sharding", "flower-sharding.png", 820),
            (f"/sharding/job?id={large}", "flower-sharding-job.png", 1400),
        ):
            driver.set_window_size(1400, high)
            driver.get(shop.site.url + path)
            eventually(lambda: driver.execute_script(live) == "Live")
            driver.save_screenshot(str(TARGET / file))
        draw_bars(shop, large)


if __name__ == "__main__":
    main()
