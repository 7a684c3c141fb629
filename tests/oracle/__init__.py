"""Models that the real thing is compared with: pure Python, in no package.

What the scripts of ``throttle.store.redis`` do inside Redis, number for number. Tests
compare the scripts with these modules, and simulations of many workers use them.

    ``steady``      the store's clock, which never goes back
    ``windows``     counts in buckets of 100 ms, in windows of a second
    ``estimators``  *weighted* and *fast*
    ``shares``      parts of a limit, max-min fair, never more together than there is
    ``turn``        starts of runs that are larger than a second of a share
    ``store``       all of them as a store in memory (`Oracle`)
    ``placement``   who gets which shard of an executor that died
"""
