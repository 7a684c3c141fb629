"""Writes the entries of a trial: ``python -m benchmarks.peers``.

With ``PULSE`` one more of every second, by whose first message all are seen to work.
"""

from __future__ import annotations

from importlib import import_module

from benchmarks.peers.environment import given
from benchmarks.schedules.app import app

entries = int(given("ENTRIES", "1"))
peer = import_module(f"benchmarks.peers.{given('PEER')}")
peer.load(app, entries)
if given("PULSE"):
    peer.put(app, entries, 1.0)
