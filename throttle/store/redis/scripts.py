"""The scripts, as Redis gets them."""

from __future__ import annotations

from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple


class Script(NamedTuple):
    """A script and the name that Redis knows it by."""

    text: str
    sha: str


def _read(*names: str) -> Script:
    package = files(__package__)
    text = "".join(package.joinpath(f"{n}.lua").read_text("utf-8") for n in names)
    return Script(text, sha1(text.encode()).hexdigest())  # noqa: S324 — Redis' choice


EXCHANGE = _read("clock", "windows", "exchange")
LOOK = _read("clock", "windows", "look")
ELECT = _read("clock", "elect")
LOWER = _read("clock", "lower")
