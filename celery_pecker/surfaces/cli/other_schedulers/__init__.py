"""Schedules that other schedulers store: ``pecker import --schedules``.

model     one schedule of another scheduler, and what is not imported
redbeat   RedBeat's keys in Redis
tables    tables of a database, row by row
rows      the tables of django-celery-beat and sqlalchemy-celery-beat
values    instants, JSON and crontab fields, as those tables have them
rules     RedBeat's rrule as a rule of RFC 5545

The readers import none of those packages: their stores can be read where only
celery-pecker is installed.
"""
