"""Where tasks wait before they take a slot: pure, bounded, fair between tenants.

`Hold` knows nothing of Celery: what it keeps are items of any kind with a target, a
size and an expected cost. Whose turn it is says a virtual time by tenant (start-time
fair queueing): each tenant's clock runs by what its items cost, over its weight, and
the one that is behind goes first. So 10,000 items of one tenant do not delay the ten of
another, and a tenant that was away has saved nothing up.

    by database      which may take: one lane is shut, the others go on
    by tenant        fair by cost and weight
    by priority      the smaller number first
    by age           first in, first out

Where things are
    ``hold``     all databases, bounds, counts
    ``fair_queue``  one database: whose turn it is
"""

from throttle.hold.hold import Hold, Waiting

__all__ = ["Hold", "Waiting"]
