"""What is owed to the table after a publish: misses counted, slots confirmed.

Written at once, chunk by chunk: an unconfirmed slot is sent again by others, and a miss
that is not written is forgotten with the process.
"""

from __future__ import annotations

from itertools import islice

from celery_pecker.schedules.outgoing import Outgoing
from celery_pecker.schedules.repository import CHUNK, Repository


def pay(outgoing: Outgoing, repository: Repository) -> None:
    """Write all that is owed; what could not be written is still owed."""
    while outgoing.missed:
        some = dict(islice(outgoing.missed.items(), CHUNK))
        repository.count_missed(some)
        for name in some:
            del outgoing.missed[name]
    while outgoing.rested:
        repository.rest(outgoing.rested[:CHUNK])
        del outgoing.rested[:CHUNK]
    while outgoing.confirmed:
        repository.confirm(outgoing.confirmed[:CHUNK])
        del outgoing.confirmed[:CHUNK]
