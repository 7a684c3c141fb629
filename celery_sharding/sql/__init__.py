"""The statements of celery_sharding, one room of the ledger per file.

Read by `celery_pecker.kernel.sql.statements("celery_sharding")`; the tables are made
by the kernel's one line of migrations.
"""
