"""Counts in windows, traffic told from them, and shares of a limit: pure.

What the scripts of ``throttle.store.redis`` do inside Redis, in Python, number for
number: tests hold the one against the other, and simulations use this.
"""
