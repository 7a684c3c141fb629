"""Schedules that people and programs edit while everything runs.

Entries of ``beat_schedule`` are code. A stored schedule is a row of
``pecker_schedules``; which slots of it are due, and whether it is paused, stands in the
hot row of ``pecker_tasks`` as for any entry. One edit is one transaction over both, or
part of the caller's own.

Where things are
    ``schedule_json``       a schedule from JSON that people can read, and as such JSON
    ``timings``             when a stored schedule is due: for replicas, edits and
                            people
    ``definition``          the one validator
    ``anchor``              where slots count from after an edit
    ``edit_plan``           what an edit writes
    ``edits``               the statements, in any transaction; ``sql/stored.sql``
    ``rows``                rows as people see them
    ``app``                 ``Schedules``: what people call
    ``fields``              the fields of a form, as texts

Laws
    *version*: a replica claims a slot only under the version that it has read, so none
    runs a definition older than the one that is committed
    *nothing vanishes*: a slot that was due and unclaimed when the schedule changed runs
    once, by the new definition
    *nothing repeats*: slots before an edit are never due by the new schedule; a removed
    name that returns goes on from now
    *code wins*: a name that code declares is refused
"""
