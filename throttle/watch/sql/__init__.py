"""The statements to watched servers, by their label: ``/* throttle:signal */``.

The label leads, so that a reader of ``pg_stat_activity`` knows the sender.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import LiteralString


@cache
def statement(name: str) -> LiteralString:
    """Return the text of ``name.sql``. It is our own file: nothing is put into it."""
    text = (files(__name__) / f"{name}.sql").read_text(encoding="utf-8")
    return text.strip()
