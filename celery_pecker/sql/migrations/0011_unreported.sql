-- What was sent and no worker reports of: messages of a queue that nobody listens to. And why
-- the last slot that was not sent was not.
-- readable from: 1

alter table {schema}.pecker_outcomes
    add column unsent_error text,
    add column reported_era integer,
    add column reported_due timestamptz,
    add column reported boolean not null generated always as (
        reported_due is not null) stored,
    add column report_by timestamptz,
    add column unreported_at timestamptz generated always as (
        case when coalesce(
            (sent_era, sent_due) > (reported_era, reported_due), sent_due is not null)
        then report_by end) stored;
comment on column {schema}.pecker_outcomes.reported_due is
    'the last slot that a worker reported of: begun, ended or refused';
comment on column {schema}.pecker_outcomes.reported is
    'whether a worker has reported of it, ever';
comment on column {schema}.pecker_outcomes.unsent_error is
    'why it was not sent, cut to 200 characters; empty where nobody knows';
comment on column {schema}.pecker_outcomes.report_by is
    'by when a worker should report of what was sent after that; null: no worker reports at all';
comment on column {schema}.pecker_outcomes.unreported_at is
    'from when on what was sent counts as unreported; null: all was reported of';

-- Whether any worker reports is asked at each write of counts. The column stays as it is once
-- a worker has reported, so that later updates stay in the page.
create index pecker_outcomes_reported on {schema}.pecker_outcomes (name) where reported;
