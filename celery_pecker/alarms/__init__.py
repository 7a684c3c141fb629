"""Alarms: what is wrong by the tables rings once per cluster, and its end is noticed.

    rules ──▶ step ──take a turn──▶ looking ──find_*──▶ record ─▶ pecker_alarms
                                                          │        pecker_alarm_notices
    log, Apprise, callable ◀── sending ◀──take, held──────┘

``model``    the nouns: kinds, rules, terms, findings, notices; pure
``rules``    the setting ``pecker_alarms``, checked; pure
``words``    what is wrong, in a sentence; pure
``tables``   the statements
``looking``  one look of one rule
``targets``  where notices go
``sending``  sends them, at least once
``bounded``  calls a target that may hang
``step``     the rounds of one replica
``overview`` what people see
"""

from celery_pecker.alarms.model import Kind, Notice

__all__ = ["Kind", "Notice"]
