"""What the sharding rows stand on: a field of workers, its tasks, and the peers' side.

=============  ==========================================================
``field``      a schema and a queue of a trial's own, and workers on them
``ours``       the app of our workers: sharded tasks
``canvas``     the app of Celery's own side: chord and `chunks`
``dask``       dask.distributed's side, a program of its own
``touched``    how often each item was begun, and when, whoever was killed
``ledger``     what the tables say of a job
=============  ==========================================================
"""
