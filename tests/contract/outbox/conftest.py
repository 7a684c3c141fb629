"""Brokers with their raw messages: those of the publisher's contract."""

from __future__ import annotations

from tests.contract.publisher.conftest import wire

__all__ = ["wire"]
