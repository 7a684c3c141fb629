"""What is owed to the table after a publish: misses counted, slots confirmed.

Written at once, chunk by chunk: an unconfirmed slot is sent again by others, and a miss
that is not written is forgotten with the process.
"""

from __future__ import annotations

from itertools import islice

from celery_pecker.schedules.repository import CHUNK, Repository
from celery_pecker.schedules.sending import Sending


def pay(sending: Sending, repository: Repository) -> None:
    """Write all that is owed; what could not be written is still owed."""
    while sending.missed:
        some = dict(islice(sending.missed.items(), CHUNK))
        repository.count_missed(some)
        for name in some:
            del sending.missed[name]
    while sending.rested:
        repository.rest(sending.rested[:CHUNK])
        del sending.rested[:CHUNK]
    while sending.confirmed:
        repository.confirm(sending.confirmed[:CHUNK])
        del sending.confirmed[:CHUNK]
