"""Takes the pictures of the throttle: ``python -m tests.browser.throttle_scene``.

A rush at a small company, played for half a minute on a real Redis by workers that are
none; Flower looks ten times as often as it does, so that its chart is full by then.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner
from rich.console import Console

from celery_pecker.kernel.clock import pause
from celery_pecker.testing import EmbeddedRedis, eventually
from tests.browser.chromium import chromium
from tests.integration.flower.site import Site
from tests.integration.throttle.crew import Crew
from throttle.cli import throttle
from throttle.cli.screen import Screen
from throttle.model import Amount, Holding
from throttle.overview import Sampler, open_store
from throttle.settings import Settings

TARGET = Path(__file__).parents[2] / "docs" / "_static"
SECONDS = 32.0
TURN = 0.2
LIMITS: dict[str, Any] = {
    "main": {"operations": 5000, "seconds": 40},
    "reports": {"operations": 800, "policy": "closed"},
    "billing": {"operations": 2000, "shadow": True},
}
FULL: dict[str, tuple[float, float]] = {
    "main": (5000.0, 40.0),
    "reports": (800.0, 0.0),
    "billing": (2000.0, 0.0),
}
TENANTS = {"acme": 0.5, "globex": 0.3, "initech": 0.15, "umbrella": 0.05}
FAST = "import throttle.flower as w\nw.EVERY = 0.1\n"


class Rush:
    """What the workers hold, and do, at an instant of the scene."""

    def __init__(self) -> None:
        self._admitted = dict.fromkeys(range(1, 5), 2_000.0)
        self._waiting = 0.0

    def at(self, second: float, crew: Crew) -> None:
        """The crew goes by it from its next turn on."""
        due = 4_000.0 if 8.0 <= second < 8.0 + TURN else 0.0
        flow = 160.0 if self._waiting or due else 30.0
        self._waiting = max(self._waiting + due - flow * TURN, 0.0)
        rising = min(max(second - 8.0, 0.0), 1.0)
        wave = 1 + 0.12 * ((second * 3.7) % 2 - 1)
        rush = 3_900.0 * rising if self._waiting else 900.0
        crew.traffic = {
            "main": rush * (0.97 + 0.03 * wave),
            "reports": 60.0 * wave,
            "billing": 1_250.0 * wave,
        }
        crew.outside = {
            "main": 700.0 * wave,
            "reports": 300.0 if second < 20 else 1_000.0 * wave,
        }
        crew.workers = {
            f"worker{nth}@node-{nth}": self._holdings(nth, flow, second)
            for nth in self._admitted
        }

    def _holdings(self, nth: int, flow: float, second: float) -> dict[str, Holding]:
        self._admitted[nth] += flow * TURN / 4
        held = int(self._waiting * (0.4, 0.3, 0.2, 0.1)[nth - 1])
        admitted = self._admitted[nth]
        main = Holding(
            want=1.0 if held else 0.2,
            limit=Amount(*FULL["main"], 0.0),
            held=held,
            held_bytes=held * 1_900,
            admitted=int(admitted),
            oldest=max(second - 8.0, 0.0) if held else 0.0,
            tenants={
                name: (int(held * part), int(admitted * part))
                for name, part in TENANTS.items()
            },
        )
        if nth == 1:
            shadow = Holding(
                want=0.6,
                limit=Amount(*FULL["billing"], 0.0),
                admitted=int(admitted * 1.5),
                would_hold=int(second * 11),
            )
            return {"main": main, "billing": shadow}
        few = Holding(want=0.1, limit=Amount(*FULL["reports"], 0.0), admitted=9)
        return {"main": main, "reports": few} if nth == 2 else {"main": main}


def play(crew: Crew, sampler: Sampler, screen: Screen) -> None:
    """The scene is over; the screen has seen it."""
    rush = Rush()
    for turn in range(int(SECONDS / TURN)):
        second = turn * TURN
        rush.at(second, crew)
        if second >= 20:
            why = "48 active backends, 30 is the threshold"
            crew.store.lower("reports", 0.5, why, 20.0)
        screen.remember(sampler.sample())
        pause(TURN)


def draw_screen(sampler: Sampler, screen: Screen) -> None:
    """The picture of the terminal is new."""
    console = Console(record=True, width=118, force_terminal=True, highlight=False)
    console.print(screen.drawn(sampler.sample(), 118))
    console.save_svg(str(TARGET / "throttle-top.svg"), title="celery throttle top")


def main() -> None:
    """The pictures are new."""
    with ExitStack() as stack:
        redis = stack.enter_context(EmbeddedRedis(fast=True))
        broker = stack.enter_context(EmbeddedRedis(fast=True))
        conf: dict[str, Any] = {
            "throttle_redis_url": redis.url,
            "throttle_limits": LIMITS,
            "throttle_estimator": "fast",
        }
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        site = Site(folder=folder, broker_url=broker.url, conf=conf)
        stack.callback(site.close)
        site.start(before=FAST)
        settings = Settings.read(conf)
        sampler = Sampler(open_store(settings), settings)
        screen = Screen("redis://redis:6379/1")
        crew = stack.enter_context(Crew(redis.url, {}, {}))
        driver = stack.enter_context(chromium(1400, 1130))
        driver.get(f"{site.url}/throttle")
        play(crew, sampler, screen)
        draw_screen(sampler, screen)
        driver.get(f"{site.url}/throttle")
        live = "return document.getElementById('pecker-live').textContent"
        eventually(lambda: driver.execute_script(live) == "Live")
        driver.execute_script(
            "document.getElementById('source').textContent ="
            "'Counted at redis://redis:6379/1, computed by the fast estimator'"
        )
        driver.save_screenshot(str(TARGET / "flower-throttle.png"))
        app = Celery("scene", broker="memory://", set_as_current=False)
        app.conf.update(conf)
        record(app, crew)


def record(app: Celery, crew: Crew) -> None:
    """The chart of a run is new."""
    import threading  # noqa: PLC0415 — a play beside the recording

    rush = Rush()

    def on() -> None:
        for turn in range(int(SECONDS / TURN)):
            rush.at(turn * TURN, crew)
            pause(TURN)

    player = threading.Thread(target=on, daemon=True)
    player.start()
    CliRunner().invoke(
        throttle,
        [
            *("record", "--seconds", "30", "--database", "main"),
            *("--title", "Rush hour", "--to", str(TARGET / "throttle-run.svg")),
        ],
        obj=CLIContext(app=app, no_color=True, workdir=None),
        catch_exceptions=False,
    )
    player.join()


if __name__ == "__main__":
    main()
