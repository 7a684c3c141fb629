-- What the gates of replicas hold back, so that all of them tell it from what is silent.
-- readable from: 1

alter table {schema}.pecker_replicas
    add column held text[] not null default '{}';
comment on column {schema}.pecker_replicas.held is
    'entries that the gate of this process held back lately, 1,000 at most';
