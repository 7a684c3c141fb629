"""Hosts of observers as processes, and what their observers write down."""
