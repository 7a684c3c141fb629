"""Clients that wait no longer than the deadline: one module each, installed by hand.

None is installed by itself, and none imports its library before it is imported itself.
"""
