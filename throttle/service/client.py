"""The store of processes that report to the service.

It stands in `throttle.store`, since workers and gates, which use it, stand beside the
service and not above it.
"""

from throttle.store.http import HttpStore

__all__ = ["HttpStore"]
