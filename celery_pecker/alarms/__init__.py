"""Alarms: what is wrong by the tables rings once per cluster, and its end is noticed.

    rules ──▶ step ──due───▶ evaluation ──find_*──▶ record ─▶ pecker_alarms
                                                      │        pecker_alarm_notices
    log, Apprise, callable ◀── sending ◀──take, held──┘

``model``        the nouns: kinds, rules, terms, findings, notices; pure
``rules``        the setting ``pecker_alarms``, checked; pure
``sentences``    what is wrong, in a sentence; pure
``tables``       the statements
``evaluation``   finds what is wrong by one rule
``targets``      where notices go
``target_call``  calls a target that may hang
``sending``      sends them, at least once
``step``         the rounds of one replica
``overview``     what people see
"""

from celery_pecker.alarms.model import Kind, Notice

__all__ = ["Kind", "Notice"]
