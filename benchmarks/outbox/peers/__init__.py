"""The outbox and others that record work in PostgreSQL, each as it is kindest to it.

======================  =====================================================
celery-pecker           ``outbox.send`` over psycopg; one relay, to Redis
django-celery-outbox    ``delay()`` of its app in ``atomic``; its relay with batches
                        of 1,000 (100 by default), a look each 0.05 s (1 by default)
                        and four threads that publish (one by default), to Redis
pgqueuer                enqueued over psycopg; one consumer with asyncpg, uvloop and
                        batches of 100 (10 by default), which runs the job: no broker
procrastinate           deferred over psycopg; one worker of 30 jobs at a time (one by
                        default) that deletes what is done: no broker
celery                  ``delay()`` to Redis, which records nothing
======================  =====================================================

Each module has `install`, `sender`, which gives a call and a transaction, `consume`
and the name of the `TABLE` that is empty once all is done.
"""
