"""Schedulers, workers and servers that are killed, frozen and cut off."""
