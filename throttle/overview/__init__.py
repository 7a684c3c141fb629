"""How the databases stand, for people: the same on a terminal, in Flower, in metrics.

    model     a picture of one instant: databases, their workers, their tenants
    judge     from what the store knows to a picture, in words: pure
    looking   one look after the other: rates, and what was seen last when Redis is away
    source    the store that an app's settings name

Looking only reads; it changes nothing.
"""

from throttle.overview.looking import Looking
from throttle.overview.model import Picture, State, Status, Tenant, Worker
from throttle.overview.source import open_store

__all__ = [
    "Looking",
    "Picture",
    "State",
    "Status",
    "Tenant",
    "Worker",
    "open_store",
]
