"""Redis and RabbitMQ: how messages get there, and how workers outlive a restart.

===============  =====================================================================
``publisher``    puts many messages on the broker in one go
``redis_guard``  a worker lives through a restart of Redis, and so does what it holds
===============  =====================================================================
"""
