"""The world's airports, imported from a file that nobody here wrote.

    records   the rows of the package `airportsdata` as items, and what each depends on
    app       the Celery app: a sharded task needs no more than these settings
    tasks     the job: what is read, how a batch is written, what is reported
    play      two workers import; one is killed with SIGKILL midway
    story     the report: what was imported, which rows are bad, and why

A city's row refers to its subdivision, and that to its country: dependencies become
layers, layers shards, and shards rows in PostgreSQL. Before each batch a worker asks
the gate of `throttle` whether the database bears it. ``python -m
example_project.airports`` plays it alone; ``make demo`` plays it at its end.
"""
