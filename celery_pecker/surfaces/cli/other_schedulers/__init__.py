"""Schedules that other schedulers store: ``pecker import --schedules``.

redbeat   RedBeat's keys in Redis
tables    tables of a database, row by row
rows      the tables of django-celery-beat and sqlalchemy-celery-beat
values    one schedule of another scheduler; instants, JSON and crontab fields
plan      what becomes of each here

The readers import none of those packages: their stores can be read where only
celery-pecker is installed.
"""
