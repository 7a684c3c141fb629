"""Schedulers under measure, ours and the peers'."""
