"""What the status codes of shards mean, for people."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from celery_sharding.model import Code


class Meaning(NamedTuple):
    """A code in words."""

    name: str
    why: str


MEANINGS: Mapping[Code, Meaning] = MappingProxyType(
    {
        Code.WAITING: Meaning("waiting", "another layer is first, or a moment to come"),
        Code.READY: Meaning("ready", "any worker may claim it"),
        Code.PUSHED: Meaning("claimed", "a worker has it, and has not begun it"),
        Code.RUNNING: Meaning("running", "a worker runs its items"),
        Code.TIMED_OUT: Meaning("too long", "it took, or takes, longer than it may"),
        Code.SUCCEEDED: Meaning("done", "its items ended; some may have failed"),
        Code.FAILED: Meaning("failed", "it failed as a whole"),
        Code.UNTAKEN: Meaning("untaken", "ready for long, and nobody claims anything"),
        Code.STALLED: Meaning("stalled", "claimed for long, and not begun"),
        Code.DIED: Meaning(
            "died", "its process died; it goes on elsewhere, or ended so"
        ),
    }
)
