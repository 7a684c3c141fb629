"""Where processes meet: `throttle.model.Store`, in Redis or in the service before it.

``opening`` the store that the settings name
``redis/``  one script per exchange: counts, traffic, shares
``http``    the same over HTTP, for processes that may not reach Redis
``wire``    the form of that, `fields` and `timed` below it
"""

from throttle.store.opening import CheckedStore, open_store

__all__ = ["CheckedStore", "open_store"]
