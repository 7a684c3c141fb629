"""Writes the entries of a trial: ``python -m benchmarks.peers``."""

from __future__ import annotations

from importlib import import_module

from benchmarks.app import app
from benchmarks.peers.given import given

import_module(f"benchmarks.peers.{given('PEER')}").load(app, int(given("ENTRIES", "1")))
