"""Data becomes layers, layers become shards, shards are dealt to workers: pure.

``data``        what a job was given, as layers; what is refused, and why
``arguments``   Sources in a call, kept apart from the data in its arguments
``cutting``     a layer's items as shards, and the same number of them for each worker
"""

from __future__ import annotations

from celery_sharding.plan.cutting import assign, cut, sizes
from celery_sharding.plan.data import from_stored, layers_of, stored

__all__ = [
    "assign",
    "cut",
    "from_stored",
    "layers_of",
    "sizes",
    "stored",
]
