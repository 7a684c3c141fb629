"""Who is measured: ours in two lanes and in a worker, and the four of today."""

from __future__ import annotations

from enum import StrEnum


class Subject(StrEnum):
    """What is measured."""

    FAST = "pecker"
    SLOW = "pecker, slow lane"
    WORKER = "pecker in a worker"
    STORED = "pecker, stored"
    BEAT = "celery beat"
    REDBEAT = "RedBeat"
    DJANGO = "django-celery-beat"
    SQLALCHEMY = "sqlalchemy-celery-beat"

    @property
    def ours(self) -> bool:
        """Whether its messages name their slot, and its log its wake-ups."""
        return self in {Subject.FAST, Subject.SLOW, Subject.WORKER, Subject.STORED}

    @property
    def peer(self) -> str:
        """The module of `benchmarks.peers` that loads its entries, if any."""
        return _PEERS.get(self, "")

    @property
    def asks_postgres(self) -> bool:
        """Whether what PostgreSQL spends is spent for it."""
        return self not in {Subject.BEAT, Subject.REDBEAT}


_PEERS = {
    Subject.STORED: "stored",
    Subject.REDBEAT: "redbeat",
    Subject.DJANGO: "django",
    Subject.SQLALCHEMY: "sqlalchemy",
}
RIVALS = (Subject.BEAT, Subject.REDBEAT, Subject.DJANGO, Subject.SQLALCHEMY)
EDITED = (Subject.STORED, Subject.REDBEAT, Subject.DJANGO)
"""Whose entries people change while a scheduler runs."""
EVERYBODY = (Subject.FAST, *RIVALS)
"""Each once: ours as it runs when nobody listens."""
