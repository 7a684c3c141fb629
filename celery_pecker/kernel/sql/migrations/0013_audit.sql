-- Who did what, when, by which surface: one row for each act of a person.
-- readable from: 1

create table {schema}.pecker_acts (
    id bigint generated always as identity primary key,
    begun_at timestamptz not null,
    act text not null,
    subject text not null,
    done_by text not null,
    surface text not null,
    ended_at timestamptz,
    error text
);
create index pecker_acts_begun on {schema}.pecker_acts (begun_at);
comment on table {schema}.pecker_acts is
    'celery-pecker: what people did by commands, Flower, the admin and remote control';
comment on column {schema}.pecker_acts.subject is
    'what it was done to: names, or the filters that chose the rows';
comment on column {schema}.pecker_acts.surface is
    'command, Flower, admin or remote control';
comment on column {schema}.pecker_acts.ended_at is
    'null: it goes on, or its process died, and what came of it is not known';
comment on column {schema}.pecker_acts.error is
    'why it was refused or failed; null: it was not';
