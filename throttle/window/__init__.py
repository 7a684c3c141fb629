"""Counts in windows, traffic told from them, and shares of a limit: pure.

What the scripts of ``throttle.store.redis`` do inside Redis, in Python, number for
number: tests hold the one against the other, and simulations use this.

    ``units``       whole numbers for all that is added up
    ``steady``      the store's clock, which never goes back
    ``windows``     counts in buckets of 100 ms, in windows of a second
    ``estimators``  *weighted* and *fast*
    ``quota``       a dispatch cycle's, by the published formula
    ``shares``      parts of a limit, max-min fair, never more together than there is
    ``turn``        starts of runs that are larger than a second of a share
    ``oracle``      all of it as a store in memory
"""
