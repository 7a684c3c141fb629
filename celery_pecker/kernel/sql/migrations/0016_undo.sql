-- Acts that wait for some seconds, in which they can be taken back.
-- readable from: 1

alter table {schema}.pecker_acts
    add column due_at timestamptz,
    add column asked text,
    add column taken_at timestamptz,
    add column undone_by text;
create index pecker_acts_due on {schema}.pecker_acts (due_at) where due_at is not null;
comment on column {schema}.pecker_acts.due_at is
    'until then it can be taken back, and then it is done; null: it was done at once';
comment on column {schema}.pecker_acts.asked is
    'what is to be done to which rows, as JSON of the page that asked';
comment on column {schema}.pecker_acts.taken_at is
    'when one Flower took it, to do it; null: none has';
comment on column {schema}.pecker_acts.undone_by is
    'who took it back; null: nobody';
