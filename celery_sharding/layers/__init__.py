"""Data in layers: what may run at the same time, and what has to wait for it.

flat        a table of rows, or a list of items, as one layer
toposort    items that wait for one another: each a layer below what it waits for
Layers      what both return: a frozen list of lists
"""

from __future__ import annotations

from celery_sharding.layers.model import MARK, Layers, flat
from celery_sharding.layers.order import toposort

__all__ = ["MARK", "Layers", "flat", "toposort"]
