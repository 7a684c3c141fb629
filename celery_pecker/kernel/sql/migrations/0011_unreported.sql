-- What was sent and no worker reports of: messages of a queue that nobody listens to. And why
-- the last slot that was not sent was not.
-- readable from: 1

alter table {schema}.pecker_outcomes
    add column unsent_error text,
    add column reported_era integer,
    add column reported_due timestamptz,
    add column reported_day date generated always as (
        (reported_due at time zone 'UTC')::date) stored,
    add column report_by timestamptz,
    add column unreported_at timestamptz generated always as (
        case when coalesce(
            (sent_era, sent_due) > (reported_era, reported_due), sent_due is not null)
        then report_by end) stored;
comment on column {schema}.pecker_outcomes.reported_due is
    'the last slot that was sent and that a worker reported of: begun, ended or refused';
comment on column {schema}.pecker_outcomes.reported_day is
    'the day of that slot, in UTC';
comment on column {schema}.pecker_outcomes.unsent_error is
    'why it was not sent, cut to 200 characters; empty where nobody knows';
comment on column {schema}.pecker_outcomes.report_by is
    'by when a worker should report of what was sent after that; null: nothing is awaited';
comment on column {schema}.pecker_outcomes.unreported_at is
    'from when on what was sent counts as unreported; null: all was reported of';

-- A message that waits for its countdown is not awaited before.
alter table {schema}.pecker_schedules
    add column countdown_us bigint generated always as (
        case jsonb_typeof(options -> 'countdown') when 'number' then
            least((options ->> 'countdown')::numeric * 1000000, 31536000000000)::bigint
        end) stored;
comment on column {schema}.pecker_schedules.countdown_us is
    'of the options: microseconds from the slot to the first moment of its run, a year at most';
alter table {schema}.pecker_declarations add column countdown_us bigint;
comment on column {schema}.pecker_declarations.countdown_us is
    'microseconds that its messages wait before a worker may begin them, or null';

-- Whether any worker has reported lately is asked at each write of counts. The column changes
-- once a day, so that all other updates stay in the page.
create index pecker_outcomes_reported on {schema}.pecker_outcomes (reported_day)
    where reported_day is not null;
