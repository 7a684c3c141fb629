"""Chance of our own."""

from __future__ import annotations

import random

from celery_pecker.kernel.clock import chance


def test_jitter_leaves_the_programs_chance_alone() -> None:
    """Who seeds the module's generator counts on what it gives next."""
    before = random.getstate()
    drawn = [chance() for _ in range(50)]
    assert random.getstate() == before
    assert all(0 <= one < 1 for one in drawn)
    assert len(set(drawn)) == len(drawn)
