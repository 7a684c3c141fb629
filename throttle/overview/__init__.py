"""How the databases stand, for people: the same on a terminal, in Flower, in metrics.

    model     a picture of one instant: databases, their workers, their tenants
    judge     from what the store knows to a picture, in words: pure
    sampling  one picture after the other: rates, and the last one while Redis is away;
              the store that an app's settings name
    sums      what workers count, though they come and go

All of it only reads; nothing is changed.
"""

from throttle.overview.model import Picture, State, Status, Tenant, Worker
from throttle.overview.sampling import Sampler, open_store

__all__ = [
    "Picture",
    "Sampler",
    "State",
    "Status",
    "Tenant",
    "Worker",
    "open_store",
]
