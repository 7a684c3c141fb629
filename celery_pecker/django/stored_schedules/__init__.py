"""Stored schedules in Django's admin: looked at, added, changed, removed.

Rows are read by Django's own queries and shown as ``celery_pecker.schedules.stored``
reads them; each edit is one of ``Schedules``, with its validator, its versions and its
history. It joins the ``atomic`` block of the request where the admin's database has the
tables.
"""
