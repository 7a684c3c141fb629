"""The peers, each as its own documentation has it run, with its kindest settings.

=======================  ====================================================
RedBeat                  ``-S redbeat.RedBeatScheduler``, on the Redis that is the
                         broker too. ``beat_max_loop_interval`` 1, as its
                         documentation advises for tasks that come often: it also sets
                         how often a standby looks for the lock. The lock is held for
                         five times as long (5 s; by default 25 minutes) where its
                         holder is killed; elsewhere for 60 s, or it is lost under load.
django-celery-beat       ``-S django``, on our PostgreSQL, ``beat_max_loop_interval``
                         1, and ``CONN_MAX_AGE`` None: without it each look at the
                         schedule is a new connection.
sqlalchemy-celery-beat   ``-S sqlalchemy``, on our PostgreSQL through psycopg,
                         ``beat_max_loop_interval`` 1. It takes no pool of connections
                         in a process that was not forked: options of one are dropped.
=======================  ====================================================

Entries are written in bulk with each one's own models before it starts, as an
application does it that keeps its schedule in the database; the schedules of the app's
configuration would be compared and written one by one at each start. All run at the
log level that is Celery's default.
"""
