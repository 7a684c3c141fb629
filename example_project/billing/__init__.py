"""Calls are ended and billed by tasks that an outbox records with the commit.

    app, tasks   the Celery app with its outbox; `end_call` ends a call, `bill` bills it
    caller       a service that hangs up: one transaction marks the call and records
                 `end_call`; it can kill itself in the line after a commit
    watch        what stands in the tables: hung up, billed, waiting
    trouble      kill a relay between its push and its delete
    play         callers die, a relay dies, the broker is away for ten seconds
    picture      what waits in the table, and what is billed, over time
    story        the report: none lost, none doubled

``python -m example_project.billing`` or ``make demo ACT=outbox`` plays it alone;
``make demo`` plays it at its end.
"""
