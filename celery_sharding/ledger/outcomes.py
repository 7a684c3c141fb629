"""How jobs go on from layer to layer, to Post, and to their end."""

from __future__ import annotations

from celery_sharding.ledger.advancing import Advancing
from celery_sharding.ledger.posting import Posting
from celery_sharding.ledger.telling import Telling


class Outcomes(Advancing, Posting, Telling):
    """Closing of layers and jobs, Post, and what others are to be told."""
