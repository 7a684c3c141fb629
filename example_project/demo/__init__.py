"""The story that shows what the scheduler is for: ``python -m example_project.demo``.

Two schedulers, two workers, two hundred calls; a scheduler is killed and brought back,
the other is frozen, PostgreSQL is restarted. What the report says is read from the
tables that the tasks themselves wrote, never from what the demo meant to do.

`report`, `strip` and `picture` are pure. `servers` and `stage` own every process and
every folder that the demo makes, and leave nothing behind.
"""
