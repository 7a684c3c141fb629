"""Django on PostgreSQL that obeys the deadline: a database backend.

    DATABASES = {"default": {"ENGINE": "celery_pecker.deadline.clients.django", …}}

All else of the entry stays. For another backend on psycopg (PostGIS) make a package
with a module `base`:

    from celery_pecker.deadline.clients.django.base import Bounded
    from django.contrib.gis.db.backends.postgis import base

    class DatabaseWrapper(Bounded, base.DatabaseWrapper): ...

A connection that was given up is replaced at its next use outside of `atomic`.
"""
