"""Say how long each cause takes to the first screen: python -m tests.browser.incidents.

Ten seconds is what is aimed at, on a desk and on a phone.
"""

from __future__ import annotations

import sys

from celery_pecker.kernel.clock import SYSTEM
from tests.browser.axe import phone
from tests.browser.chromium import chromium
from tests.browser.incidents.incidents import INCIDENTS
from tests.browser.incidents.scene import scene
from tests.browser.incidents.test_incidents import is_well, shows, wait
from tests.browser.screen import Screen

AIM = 10.0
"""Seconds."""


def main() -> int:
    """Print a line for each; return how many took longer."""
    late = 0
    with scene() as running, chromium() as driver:
        page = Screen(driver, running.site)
        page.open("/now")
        for name, one in INCIDENTS.items():
            wait(page, lambda: is_well(page), "nothing is wrong before")
            with one.begin(running):
                begun = SYSTEM.monotonic()
                wait(page, lambda title=one.title: shows(page, title), one.title)
                taken = SYSTEM.monotonic() - begun
                with phone(driver):
                    wait(page, lambda title=one.title: shows(page, title), one.title)
            late += taken > AIM
            sys.stdout.write(f"{name:<22}{taken:5.1f} s  {one.title}\n")
    return late


if __name__ == "__main__":
    sys.exit(main())
