"""Where processes meet: `throttle.model.Store`, in Redis or in the service before it.

``redis/``  one script per exchange: counts, traffic, shares
``http``    the same over HTTP, for processes that may not reach Redis
``wire``    the form of that, `fields` and `timed` below it
"""
