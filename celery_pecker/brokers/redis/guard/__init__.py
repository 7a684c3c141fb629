"""A worker lives through a restart of Redis, and so does what it holds.

Celery's worker on Redis holds messages: those that it runs with a late
acknowledgement, and those that it fetched ahead. kombu keeps them in the hash
`unacked` under their delivery tag. When the connection breaks, Celery 5.7 closes the
channel twice; the second time kombu tries to give the held messages back over a
connection that has no address any more, raises an AttributeError that counts as no
connection error, and the worker exits.

The guard takes the held messages over before the channel is closed, and settles each
one over the next connection, by its tag:

* not started: given back to its queue, in its old order, exactly once;
* running, or in the hands of a pool that cannot return it: kept. No other worker gets
  it from us, and when it ends (or starts, with an early acknowledgement) its
  acknowledgement goes over the new connection;
* acknowledged or rejected while Redis was away: that is done now;
* taken out of the queue, but not yet in `unacked` when Redis died: put back;
* not there any more (Redis came back without its data) or fetched by another worker
  since (the visibility timeout ran out): left alone.

What is left: a message that Redis handed out in the very answer that never arrived is
lost (kombu fetches with BRPOP). A replica that takes over without the last writes may
hand out again what was running. A task longer than the visibility timeout is handed
out again, as always on Redis. A worker that ends while Redis is away leaves its
messages to the visibility timeout. Channels other than the one that tasks come from
(a consumer step of the user's) are not guarded.

Nothing is patched for the whole process: the guard hangs on one consumer and on the
channel it consumes from, and ends with them.
"""
