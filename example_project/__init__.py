"""A small meeting service whose calls live only while somebody checks them.

Nouns: a *call* is held by a *backend* and takes place in a room with a *room agent*
and *equipment*. The backend hangs up a call about which nobody has asked for a
while; so a per-second task, `tasks.sweep`, finds the calls not checked lately and
enqueues a `tasks.check` for each, and a check asks all three parts over the network.

The sweep is the task that must never stand still: it is an entry of an ordinary
``beat_schedule``, run by any number of ``celery beat -S pecker``. The package
`example_project.demo` shows what becomes of it while schedulers are killed and frozen.

`example_project.rush` is its rush hour on one database, and `example_project.airports`
a sharded job that imports the world's airports while a worker is killed. In
`example_project.billing` calls are ended and billed by tasks of an outbox.

Nothing of celery-pecker imports this package, and it is in no wheel.
"""
