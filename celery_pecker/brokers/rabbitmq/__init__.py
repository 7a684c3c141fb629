"""RabbitMQ: messages in one write, confirmed at the end."""
