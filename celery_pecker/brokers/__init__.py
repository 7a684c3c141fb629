"""Redis and RabbitMQ: how messages get there, and how workers outlive a restart.

=============  =======================================================================
``publisher``  puts many messages on whatever broker in one go
``redis``      Redis to the publisher; a worker lives through a restart of it
``rabbitmq``   RabbitMQ to the publisher
=============  =======================================================================
"""
