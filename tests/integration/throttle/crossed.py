"""Pools and brokers of one test: each of both once, and all pairs in `make soak`."""

from __future__ import annotations

import pytest

PAIRS = [
    ("redis", "prefork"),
    ("rabbitmq", "threads"),
    ("redis", "gevent"),
    ("rabbitmq", "solo"),
]
"""What a pool does is the same on each broker, so a pair shows both."""


def pools_and_brokers(*pools: str) -> pytest.MarkDecorator:
    """Give a test its fixture ``either``, a stand on a broker, and its ``pool``."""
    return pytest.mark.parametrize(
        ("either", "pool"),
        [
            pytest.param(
                *(broker, pool),
                marks=() if (broker, pool) in PAIRS else (pytest.mark.soak,),
            )
            for broker in ("redis", "rabbitmq")
            for pool in pools
        ],
        indirect=["either"],
    )
