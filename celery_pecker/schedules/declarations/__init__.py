"""A Celery app's ``beat_schedule``, read into entries and checked (I11).

=================  ========================================================
``validation``     what is refused before Celery itself would answer with a
                   bare TypeError
``reading``        the entries that a scheduler works with, and what stands
                   under the key ``pecker`` of one
``task_entries``   entries that stand beside their task's code; two of one name
``beat_schedule``  Celery's own scheduler, which reads all of it
=================  ========================================================

Nothing here knows a clock or a server: whatever can be wrong with a schedule is
refused before anything is connected.
"""
