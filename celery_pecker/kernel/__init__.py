"""What every kind of row, and both other packages, stand on.

Each mechanism stands here once. A module either decides without I/O, or is the one
place that does a thing.

decide
    ``errors`` (what can go wrong, by what to do about it), ``lease`` (how long a holder
    trusts its claim), ``backoff``, ``gate`` (what may hold entries back), ``settings``
do
    ``clock`` (reads time and chance), ``wakeup`` (a sleep that others end), ``loop`` (a
    thread that takes steps for ever), ``hosts`` (the servers of a DSN), ``database``
    (runs the labelled statements of ``sql/``), ``connections`` (those that threads
    share), ``migrations``, ``schema_check`` (refuses a server or schema at start),
    ``user_code`` (calls code that is not ours), ``aside`` (on threads that may hang),
    ``once_a_minute`` (logs
    what repeats), ``lazy_names`` (public names that load late)

Nothing in this package imports Celery, kombu or Redis, or a package above it.
"""
