"""Alarms: what is wrong by the tables rings once per cluster, and its end is noticed.

    rules ──▶ step ──due───▶ Evaluator ──find_*──▶ record ─▶ pecker_alarms
                                                     │        pecker_alarm_notices
    log, Apprise, callable ◀── Sending ◀──take, held─┘

``model``        the nouns: findings, what rings, notices; pure
``kinds``        a rule, and what it may look for: statement, threshold, sentence; pure
``rules``        the setting ``pecker_alarms``, checked; pure
``tables``       the statements
``targets``      where notices go
``step``         the rounds of one replica: what is wrong by each rule that is due, and
                 sending notices at least once
``overview``     what people see
"""

from celery_pecker.alarms.model import Notice

__all__ = ["Notice"]
