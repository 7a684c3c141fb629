"""How jobs go on from layer to layer, to Post, and to their end."""

from __future__ import annotations

from celery_sharding.ledger.advancing import Advancing
from celery_sharding.ledger.posting import Posting
from celery_sharding.ledger.reporting import Reporting


class Outcomes(Advancing, Posting, Reporting):
    """Closing of layers and jobs, Post, and what to report to others."""
