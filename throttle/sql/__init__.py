"""The statements of throttle: what a watched PostgreSQL is asked.

Read by `celery_pecker.kernel.sql.statements("throttle")`; there are no tables.
"""
