/* example_project:schema */
-- The meeting service's own tables. They share a database with celery-pecker's, which
-- `celery -A example_project.app pecker migrate` makes; nothing here refers to those
-- but the statement record_run.

create table room_agents (
    id   int primary key,
    host text not null,
    port int not null
);

create table equipment (
    id   int primary key,
    kind text not null,
    host text not null,
    port int not null
);

create table backends (
    id   int primary key,
    host text not null,
    port int not null
);

create table calls (
    id           int primary key,
    agent_id     int not null references room_agents,
    equipment_id int not null references equipment,
    backend_id   int not null references backends,
    started_at   timestamptz not null default clock_timestamp(),
    -- The last finished check, and the last time that one was enqueued.
    checked_at   timestamptz not null,
    asked_at     timestamptz not null default '-infinity',
    ended_at     timestamptz,
    end_reason   text,
    check ((ended_at is null) = (end_reason is null))
);

-- The sweep looks at live calls only, the longest unchecked first; it runs each second.
create index calls_live_by_check on calls (checked_at) where ended_at is null;

create table checks (
    -- The check's Celery task id: a record that is sent twice is one row.
    id         uuid primary key,
    call_id    int not null references calls,
    checked_at timestamptz not null,
    agent      text not null,
    backend    text not null,
    equipment  text not null,
    took       float8 not null,
    bad        boolean not null generated always as (
        agent <> 'ok' or backend <> 'ok' or equipment <> 'ok'
    ) stored
);

create index checks_bad on checks (call_id, checked_at) where bad;

create table sweep_runs (
    -- One row per run of the task, not per message: the same message run twice is two.
    id       uuid primary key,
    task_id  uuid not null,
    -- What the message's `pecker` header says.
    name     text not null,
    due_at   timestamptz not null,
    era      int not null,
    epoch    bigint not null,
    -- When the run began, and where.
    began_at timestamptz not null,
    worker   text not null,
    -- Whose claim it was, as pecker's own tables had it when the run began.
    won_by   int,
    taken    int
);

create index sweep_runs_by_begin on sweep_runs (began_at);

create table faults (
    id       int generated always as identity primary key,
    part     text not null check (part in ('agent', 'equipment')),
    call_id  int not null references calls,
    kind     text not null,
    began_at timestamptz not null,
    ended_at timestamptz
);

create table pulses (
    -- One row per run of the local task: a slot that ran twice is two.
    id       int generated always as identity primary key,
    due_at   timestamptz not null,
    era      int not null,
    epoch    bigint not null,
    began_at timestamptz not null default clock_timestamp(),
    worker   text not null
);
