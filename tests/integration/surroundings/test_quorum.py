"""Quorum queues of RabbitMQ: messages on a replicated log, no priorities."""

from __future__ import annotations

from typing import Any

import pytest
from kombu import Connection, Queue

from tests.integration.surroundings.conftest import Begin

pytestmark = pytest.mark.soak


def test_a_replica_sends_to_a_quorum_queue(
    dsn: str, amqp_url: str, queue_name: str, begin: Begin
) -> None:
    """It is declared with the arguments that the app's queue has."""
    queue = Queue(queue_name, queue_arguments={"x-queue-type": "quorum"})
    try:
        begin(dsn, amqp_url, task_queues=[queue]).sends(4)
    finally:
        with Connection(amqp_url) as connection:
            channel: Any = connection.default_channel
            Queue(queue_name)(channel).delete()
