"""Put messages that were built and stored earlier on the broker.

Celery built them at the call, so nothing of Celery's is called here: no router, no
serializer, no signal. What is added is what only the moment of sending knows: the
delivery tag, and how long the message may still wait in the broker.

- *together*: many messages in one go. On Redis one script under the batch's token, all
  or nothing; on RabbitMQ with confirms.
- *alone*: one message, by the same script under a token of its own where that is
  possible, else by kombu's channel. So one that is refused is known by name.
"""

from celery_pecker.brokers.publisher.stored_messages.publisher import StoredPublisher

__all__ = ["StoredPublisher"]
