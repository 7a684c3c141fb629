-- Entries that living replicas declare differently: all of their schedules are sent.
-- readable from: 1

alter table {schema}.pecker_replicas
    add column differing text[] not null default '{}';
comment on column {schema}.pecker_replicas.differing is
    'entries that another replica has declared otherwise than this one for minutes, 1,000 at most';
