"""What hinders people on a page, by axe-core: contrast, names, headings, keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
RUN = """
const [inside, done] = arguments;
axe.run(inside, {resultTypes: ['violations'], runOnly: [
    'wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})
  .then(found => done(found.violations.flatMap(rule => rule.nodes.map(node =>
    `${rule.id}: ${node.target}: ${node.failureSummary.replaceAll('\\n', ' ')}`))))
  .catch(error => done([String(error)]));
"""
STILL = """
const style = document.createElement('style');
style.textContent = '* { transition: none !important; animation: none !important }';
document.head.append(style);
"""
"""No colour is measured half-way to another."""
THEME = """
const page = document.documentElement.dataset;
page.bsTheme = page.theme = arguments[0];  // Flower's, Django's
"""


def script() -> str:
    """Return axe-core itself, out of the package that brings it for tests."""
    spec = find_spec("axe_core_python")
    if spec is None or spec.origin is None:
        message = "axe-core-python is not installed; `make install` brings it"
        raise RuntimeError(message)
    return Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8")


def violations(driver: Any, inside: str) -> list[str]:
    """Return what axe-core complains of inside an element: rule, element, reason."""
    if not driver.execute_script("return 'axe' in window"):
        driver.execute_script(script())
    complaints: list[str] = driver.execute_async_script(RUN, inside)
    return complaints


@contextmanager
def phone(driver: Any) -> Iterator[None]:
    """Show the page as wide as a phone; a window cannot be that narrow."""
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def hindrances(driver: Any, inside: str = "#pecker") -> list[str]:
    """Return what hinders people in light and in dark, on a desk and on a phone."""
    driver.set_script_timeout(60)
    driver.execute_script(STILL)
    seen = []
    for theme in ("dark", "light"):
        driver.execute_script(THEME, theme)
        seen += [f"{theme}: {one}" for one in violations(driver, inside)]
    with phone(driver):
        seen += [f"phone: {one}" for one in violations(driver, inside)]
        wide, screen = driver.execute_script(
            "const page = document.documentElement;"
            "return [page.scrollWidth, page.clientWidth]"
        )
    if wide > screen or screen != PHONE["width"]:
        seen.append(f"phone: the page is {wide} px wide")
    headings = len(driver.find_elements("css selector", f"{inside} h1"))
    if headings != 1:
        seen.append(f"{headings} headings of the first level")
    return seen
