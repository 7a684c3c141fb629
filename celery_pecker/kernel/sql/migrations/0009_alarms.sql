-- Alarms: what is wrong by the tables, who has been sent a notice of it, and who has not yet.
-- readable from: 1

-- One row for each rule that some replica's code has: whoever moves due_at on looks.
create table {schema}.pecker_alarm_rules (
    rule text primary key,
    due_at timestamptz not null,
    looked_at timestamptz not null,
    stepped interval,
    passed text not null default '',
    recorded boolean not null default false,
    epoch bigint not null default 0,
    holder uuid
) with (
    fillfactor = 35,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table {schema}.pecker_alarm_rules is
    'celery-pecker: rules of alarms, and who looked last; one replica looks at a time';
comment on column {schema}.pecker_alarm_rules.looked_at is
    'when a replica looked last: a clock that reads earlier has stepped back';
comment on column {schema}.pecker_alarm_rules.stepped is
    'by how much the clock read earlier at the last look; null: it did not';
comment on column {schema}.pecker_alarm_rules.passed is
    'of rules that read all entries a part at a time: the last name that was read';
comment on column {schema}.pecker_alarm_rules.recorded is
    'whether a look has come to its end: until then what counters say is no news';
comment on column {schema}.pecker_alarm_rules.epoch is
    'fencing token: each look raises it, and a look writes only under its own';

create table {schema}.pecker_alarms (
    rule text not null,
    subject text not null,
    kind text not null,
    state text not null check (state in ('pending', 'ringing', 'recovered')),
    detail text not null,
    since timestamptz not null,
    seen_at timestamptz not null,
    rang_at timestamptz,
    recovered_at timestamptz,
    noticed boolean not null default false,
    noticed_at timestamptz,
    recovery boolean not null default true,
    times bigint not null default 0,
    primary key (rule, subject)
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
create index pecker_alarms_open on {schema}.pecker_alarms (rule, subject)
    where state <> 'recovered';
-- How many began or ended within a minute: what is more is a storm.
create index pecker_alarms_lately on {schema}.pecker_alarms
    (rule, (greatest(noticed_at, recovered_at)));
comment on table {schema}.pecker_alarms is
    'celery-pecker: what is wrong, and was until lately: one row for a rule and a subject';
comment on column {schema}.pecker_alarms.subject is
    'what it is about: an entry, a job, a task, an observer, a host, …';
comment on column {schema}.pecker_alarms.state is
    'pending: not for as long as the rule asks; ringing; recovered';
comment on column {schema}.pecker_alarms.noticed is
    'whether notices of this ringing were written: its recovery is worth one, too';
comment on column {schema}.pecker_alarms.noticed_at is
    'when the last notice that it rings was written: the cool-down counts from there';
comment on column {schema}.pecker_alarms.recovery is
    'whether the rule asks for a notice of its recovery';
comment on column {schema}.pecker_alarms.times is
    'how often it has begun to ring';

-- A notice is a row from the statement that rings on until its target has it. A newer one
-- about the same alarm takes the place of one that waits, so they are never more than
-- alarms times targets however long a target is away.
create table {schema}.pecker_alarm_notices (
    id bigint generated always as identity primary key,
    target text not null,
    rule text not null,
    subject text not null,
    kind text not null,
    event text not null check (event in ('ringing', 'recovered', 'trial')),
    detail text not null,
    since timestamptz not null,
    at timestamptz not null,
    held_until timestamptz not null,
    holder uuid,
    epoch bigint not null default 0,
    tries integer not null default 0,
    last_error text,
    subjects text[],
    unique (target, rule, subject)
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
create index pecker_alarm_notices_due on {schema}.pecker_alarm_notices (held_until);
comment on table {schema}.pecker_alarm_notices is
    'celery-pecker: notices of alarms, until their target has them';
comment on column {schema}.pecker_alarm_notices.target is
    'log, or a name in pecker_alarms_to; addresses are secrets and stand in no table';
comment on column {schema}.pecker_alarm_notices.subjects is
    'of a storm, one notice for all: what it is about; null: the subject alone';
comment on column {schema}.pecker_alarm_notices.held_until is
    'nobody else sends it before: one has it in hand, or its target is failing';
comment on column {schema}.pecker_alarm_notices.epoch is
    'fencing token: who takes it raises it; a newer notice in its place has a new id';

create table {schema}.pecker_alarm_targets (
    target text primary key,
    sent bigint not null default 0,
    sent_at timestamptz,
    failures integer not null default 0,
    failing_since timestamptz,
    next_at timestamptz,
    last_error text
);
comment on table {schema}.pecker_alarm_targets is
    'celery-pecker: where notices of alarms go, and which of it fails';
comment on column {schema}.pecker_alarm_targets.next_at is
    'until then nothing is sent there: it fails; null: it does not';

-- A counter that has risen by so much since its mark rings; then the mark moves on.
create table {schema}.pecker_alarm_marks (
    rule text not null,
    subject text not null,
    value bigint not null,
    seen bigint not null,
    at timestamptz,
    rung_at timestamptz,
    rose bigint not null default 0,
    detail text not null default '',
    primary key (rule, subject)
);
comment on table {schema}.pecker_alarm_marks is
    'celery-pecker: what counters said before they rose';
comment on column {schema}.pecker_alarm_marks.seen is
    'what it said at the last look that found it risen: the next window counts from there';
comment on column {schema}.pecker_alarm_marks.at is
    'when the first rise after it was seen: the window begins; null: it did not rise';
comment on column {schema}.pecker_alarm_marks.rung_at is
    'when it last rose by as much as the rule asks, within its window';
comment on column {schema}.pecker_alarm_marks.rose is
    'by how much it rose then';

-- What alarms look for, so that a look costs what is wrong and not what there is. These
-- columns change with bad news alone, so other updates of the rows stay HOT.
create index pecker_outcomes_failing on {schema}.pecker_outcomes (name)
    where failing or undelivered;
create index pecker_outcomes_bad on {schema}.pecker_outcomes (bad_at)
    where bad_at is not null;
create index pecker_observer_notices_tried on {schema}.pecker_observer_notices (tries)
    where tries > 1;
