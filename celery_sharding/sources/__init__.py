"""Items by reference: what a job works on, and messages never carry.

Source       what all of them can do: be cut into parts, and read a part
KeyRange     whole numbers from the first to the last
File         lines, JSON lines or CSV records of a file that each worker can read
Query        rows of a PostgreSQL query, page by page by their key
Sizes        how many items a part may have, and how many parts there should be
register     makes a source of your own known, in each process that meets it
read         the items of a part, from its reference
"""

from __future__ import annotations

from celery_sharding.sources.file import File
from celery_sharding.sources.kinds import (
    KeyRange,
    from_json,
    is_listed,
    read,
    refer,
    register,
    to_json,
)
from celery_sharding.sources.model import KEYS, MARK, Sizes, Source, Unreadable
from celery_sharding.sources.query import Query

__all__ = [
    "KEYS",
    "MARK",
    "File",
    "KeyRange",
    "Query",
    "Sizes",
    "Source",
    "Unreadable",
    "from_json",
    "is_listed",
    "read",
    "refer",
    "register",
    "to_json",
]
