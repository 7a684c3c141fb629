"""The name of a process life, as leases have it."""

from __future__ import annotations

import os
import socket

from celery_pecker.kernel.clock import new_tag


def holder_name() -> str:
    """Return a unique name: hostname, pid and a random part."""
    return f"{prefix_of(os.getpid())}{new_tag()}"


def prefix_of(process: int) -> str:
    """Return how the names of a process of this host begin."""
    return f"{socket.gethostname()}:{process}:"
