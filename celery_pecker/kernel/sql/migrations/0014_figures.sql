-- History in figures: what became of runs and outbox tasks, minute by minute, and marks.
-- readable from: 1

-- A row is what one process counted in a minute, of one 16th of all subjects; folded rows
-- are of all processes, and of 15 or 60 minutes. Bounded by age: rows are folded and purged.
-- Compressed in the row itself: a chart of a month reads 720 of them, and a fetch each out of
-- the TOAST table took as long again.
create table {schema}.pecker_figures (
    step smallint not null check (step in (1, 15, 60)),
    part smallint not null,
    at timestamptz not null,
    holder uuid not null,
    figures jsonb not null,
    primary key (step, part, at, holder)
) with (toast_tuple_target = 1024);
alter table {schema}.pecker_figures alter column figures set storage main;
comment on table {schema}.pecker_figures is
    'celery-pecker: counts and times of entries, outbox tasks and queues, for charts; nothing depends on it';
comment on column {schema}.pecker_figures.step is
    'minutes: 1, as a process wrote it; 15 and 60: folded';
comment on column {schema}.pecker_figures.part is
    'which of the subjects: the CRC-32 of the name modulo 16';
comment on column {schema}.pecker_figures.holder is
    'which process life counted; all zeros in folded rows';
comment on column {schema}.pecker_figures.figures is
    'by subject a text like "l14:60 o1:60": see docs/reference/tables.md';

create table {schema}.pecker_marks (
    kind text not null,
    what text not null,
    at timestamptz not null,
    primary key (kind, what)
);
comment on table {schema}.pecker_marks is
    'celery-pecker: deploys, restarts of PostgreSQL, schedulers that came and went, for charts';
