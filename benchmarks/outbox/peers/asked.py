"""What each of them is asked for: a module, a place, and a number that is seen."""

from __future__ import annotations

from typing import Any

from psycopg.conninfo import conninfo_to_dict

from benchmarks.peers.environment import given

SEEN = -1
"""A job of this number says in Redis that it ran; what a relay sends is there."""


def server_settings() -> dict[str, Any]:
    """Return the DSN as asyncpg takes it."""
    parts = conninfo_to_dict(given("DSN"))
    return {
        "host": parts.get("host"),
        "port": parts.get("port"),
        "user": parts.get("user"),
        "password": parts.get("password"),
        "database": parts.get("dbname"),
        "server_settings": {"search_path": given("SCHEMA")},
    }
