-- Who has an alarm in hand, until when it is snoozed, who has muted it, and how bad a rule is.
-- readable from: 1

alter table {schema}.pecker_alarms
    add column taken_by text,
    add column taken_at timestamptz,
    add column note text,
    add column snoozed_until timestamptz,
    add column muted_by text;
comment on column {schema}.pecker_alarms.taken_by is
    'who looks after it; null: nobody, or it has recovered since';
comment on column {schema}.pecker_alarms.note is
    'what they said when they took it';
comment on column {schema}.pecker_alarms.snoozed_until is
    'until then nothing is sent of it';
comment on column {schema}.pecker_alarms.muted_by is
    'who said that nothing is sent of it; null: it is not muted';
alter table {schema}.pecker_alarm_rules
    add column severity text not null default 'critical'
        check (severity in ('critical', 'warning'));
comment on column {schema}.pecker_alarm_rules.severity is
    'how bad it is that it rings, as the settings of who looked last say';
