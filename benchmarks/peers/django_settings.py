"""Django's settings of a trial, where Celery's integration looks for them."""

from __future__ import annotations

from benchmarks.peers.django import settings

globals().update(settings())
