"""Quorum queues of RabbitMQ: messages on a replicated log, no priorities."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kombu import Connection, Queue

from tests.integration.surroundings.conftest import Begin
from tests.integration.surroundings.whole import stand

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@contextmanager
def removed(url: str, queue: str) -> Iterator[None]:
    """Remove a queue at the end."""
    try:
        yield
    finally:
        with Connection(url) as connection:
            channel: Any = connection.default_channel
            Queue(queue)(channel).delete()


def test_a_replica_sends_to_a_quorum_queue(
    dsn: str, amqp_url: str, queue_name: str, begin: Begin
) -> None:
    """It is declared with the arguments that the app's queue has."""
    queue = Queue(queue_name, queue_arguments={"x-queue-type": "quorum"})
    with removed(amqp_url, queue_name):
        begin(dsn, amqp_url, task_queues=[queue]).sends(4)


def test_rows_of_every_kind_in_a_quorum_queue(
    dsn: str, amqp_url: str, queue_name: str
) -> None:
    """In a worker that is asked for nothing more than the type of its queue."""
    with (
        removed(amqp_url, queue_name),
        stand(
            *(dsn, amqp_url, queue_name),
            task_default_queue_type="quorum",
        ) as made,
    ):
        made.worker()
        made.begin(0)
        made.ends(0)
        made.stop(0)
        with Connection(amqp_url) as connection:
            channel: Any = connection.default_channel
            with pytest.raises(connection.channel_errors, match="'quorum'"):
                Queue(queue_name)(channel).declare()  # as another type
