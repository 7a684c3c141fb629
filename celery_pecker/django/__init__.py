"""Tables of celery-pecker in Django's admin.

    INSTALLED_APPS = [..., "celery_pecker.django"]

Nouns
    *alias*   the database of Django in which the tables are: PECKER_ADMIN_DATABASE
    *window*  the messages that a list has: the first of those that were asked for

Models are unmanaged: ``celery -A proj pecker migrate`` makes the tables, and so does
``manage.py migrate`` by a hook, in the database of ``pecker_dsn``. Of the
outbox nothing can be added, changed or deleted here: people do that by ``pecker
outbox`` or in Flower, which pass over what is in a relay's hands. Stored schedules can.
"""
