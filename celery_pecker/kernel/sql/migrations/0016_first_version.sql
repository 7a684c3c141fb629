-- The first version: all tables as they were when it was released.
-- readable from: 1

-- The ground: which steps were taken, whose the schema is, who did what.

--: celery-pecker: which steps of its schema were taken
create table {schema}.pecker_migrations (
    version integer primary key,
    name text not null,
    readable_from integer not null,
    applied_at timestamptz not null default clock_timestamp()
);

--: celery-pecker: the one Celery app whose schedules live in this schema
create table {schema}.pecker_owner (
    singleton boolean primary key default true check (singleton),
    app text not null,
    since timestamptz not null default clock_timestamp()
);

-- One row for each act of a person. What cannot be taken back waits for some seconds first.
--: celery-pecker: what people did by commands, Flower, the admin and remote control
create table {schema}.pecker_acts (
    id bigint generated always as identity primary key,
    begun_at timestamptz not null,
    act text not null,
    --: what it was done to: names, or the filters that chose the rows
    subject text not null,
    done_by text not null,
    --: command, Flower, admin or remote control
    surface text not null,
    --: null: it goes on, or its process died, and what came of it is not known
    ended_at timestamptz,
    --: why it was refused or failed; null: it was not
    error text,
    --: until then it can be taken back, and then it is done; null: it was done at once
    due_at timestamptz,
    --: what is to be done to which rows, as JSON of the page that asked
    asked text,
    --: when one Flower took it, to do it; null: none has
    taken_at timestamptz,
    --: who took it back; null: nobody
    undone_by text
);
create index pecker_acts_begun on {schema}.pecker_acts (begun_at);
create index pecker_acts_due on {schema}.pecker_acts (due_at) where due_at is not null;

-- Entries: what comes due, who declares and sends it, what people edit at run time.

-- Hot and narrow: one row per entry, one HOT update per slot. No index but the
-- primary key, and a third of each page used, so that the new version of a row
-- always finds room beside the old one (at 50 %, 2 % of the updates did not).
--: celery-pecker: last slot won of each entry; the row is the lock and the memory
create table {schema}.pecker_tasks (
    name text primary key,
    --: the due instant of the last slot won, on the grid of the entry
    executed_at timestamptz not null check (isfinite(executed_at)),
    --: fencing token of the last claim: only ever rises
    epoch bigint not null default 0,
    --: slots that passed without a message, as far as anybody lived to count them
    missed bigint not null default 0,
    --: raised when the clock of the database was found to have stepped back
    era integer not null default 0,
    --: who won the last slot: one process life, see pecker_replicas
    holder uuid,
    -- A paused entry's slots pass: they are claimed as ever and not run, so that there is
    -- no backlog at its end.
    --: its slots pass without a run until somebody resumes it
    paused boolean not null default false,
    -- A claim names the version that its replica has read, and null for an entry of code.
    --: of the definition in pecker_schedules; null: the entry is declared by code
    version bigint
) with (fillfactor = 35, {vacuumed(5000)});

-- Cold: what the living replicas declare, renewed about once a minute.
--: celery-pecker: entries that some replica's code declares, and until when
create table {schema}.pecker_declarations (
    name text primary key,
    task text not null,
    schedule text not null,
    delivery text not null,
    declared_until timestamptz not null,
    -- What a reader must know of an entry to say when it is due and what its runs may use.
    --: microseconds; null where it is no grid (crontab and the like)
    period_us bigint,
    --: microseconds that a run may take from its slot on; null: as long as it likes
    timeout_us bigint,
    --: dispatch: published to the broker; local: run in the worker that wins
    run text not null default 'dispatch',
    -- A stored schedule has its declaration from its edit on, until infinity.
    --: it stands in pecker_schedules; false: some replica's code declares it
    stored boolean not null default false,
    --: microseconds that its messages wait before a worker may begin them, or null
    countdown_us bigint
);

--: celery-pecker: one row per process life of a scheduler
create table {schema}.pecker_replicas (
    holder uuid primary key,
    host text not null,
    pid integer not null,
    version text not null,
    entries integer not null,
    started_at timestamptz not null,
    seen_at timestamptz not null,
    --: beat: a scheduler process; worker: a worker that publishes; local: its local runs
    kind text not null default 'beat',
    --: stored schedules that this process cannot read, and so does not run
    unreadable integer not null default 0,
    --: entries that the gate of this process held back lately, 1,000 at most
    held text[] not null default '{}',
    --: entries that another replica has declared otherwise than this one for minutes, 1,000 at
    --: most
    differing text[] not null default '{}'
);

-- At-least-once slots between their claim and the broker's word for it.
--: celery-pecker: slots claimed and not yet confirmed (delivery at_least_once)
create table {schema}.pecker_pending (
    name text not null,
    due_at timestamptz not null,
    era integer not null,
    epoch bigint not null,
    holder uuid not null,
    claimed_at timestamptz not null,
    deadline timestamptz,
    attempt integer not null default 1,
    -- "Run now" is a slot that nobody has claimed: its claimed_at is infinity for good, so
    -- that it is not sent as one whose holder died. Hence taken_at.
    --: somebody asked for this run: it lies beside the grid of the entry
    asked boolean not null default false,
    asked_by text,
    --: since when the holder is sending a run that was asked for; null: nobody is
    taken_at timestamptz,
    primary key (name, due_at, era)
);
create index pecker_pending_asked on {schema}.pecker_pending (due_at) where asked;

-- Cold: an edit writes a row here and, in the same transaction, the version in the hot
-- row. A replica claims a slot only under the version that it has read, so no run starts
-- with an older definition than the one that is committed. A removed schedule leaves its
-- row for a day, so that replicas see it go and its name cannot repeat its past.
--: celery-pecker: schedules that people edit at run time; when they last ran, and whether they
--: are paused, stands in pecker_tasks
create table {schema}.pecker_schedules (
    name text primary key,
    task text not null,
    args jsonb not null default '[]',
    kwargs jsonb not null default '{}',
    options jsonb not null default '{}',
    --: when it runs, as JSON with one key for its kind: {"every": 30}, {"cron": "0 4 * * *"}
    schedule jsonb not null,
    --: timeout, delivery, misfire, grace and catch_up, as they were given
    policies jsonb not null default '{}',
    --: dispatch: published to the broker; local: run in the worker that wins
    run text not null default 'dispatch',
    --: no slot lies before it
    starts_at timestamptz,
    --: no slot lies after it
    ends_at timestamptz,
    --: it runs one time only, at once_at
    once boolean not null default false,
    once_at timestamptz,
    --: one more with each edit; a removed name that returns counts on
    version bigint not null check (version > 0),
    --: since when it is no more; the row goes a day later
    removed_at timestamptz,
    created_at timestamptz not null,
    changed_at timestamptz not null,
    --: who made the last edit, as the editor was named
    changed_by text not null,
    --: the transaction of the last edit: replicas ask for those that their last snapshot did
    --: not show
    edit xid8 not null default pg_current_xact_id(),
    -- A message that waits for its countdown is not awaited before.
    --: of the options: microseconds from the slot to the first moment of its run, a year at
    --: most
    countdown_us bigint generated always as (
        case jsonb_typeof(options -> 'countdown') when 'number' then
            least((options ->> 'countdown')::numeric * 1000000, 31536000000000)::bigint
        end) stored
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
-- Replicas ask for edits that their last snapshot did not show: a walk of this index.
create index pecker_schedules_edits on {schema}.pecker_schedules (edit, name);
-- One-offs that have run are forgotten: those whose instant has passed are looked at.
create index pecker_schedules_once on {schema}.pecker_schedules (once_at)
    where once and removed_at is null;

-- The last hundred changes of each name: an edit prunes those of its own.
--: celery-pecker: who changed which schedule, when, and to what
create table {schema}.pecker_schedule_changes (
    id bigint generated always as identity primary key,
    name text not null,
    --: the version that it made, or that was there; 0: an entry of code
    version bigint not null,
    --: created, changed, removed, returned, renamed, paused or resumed
    change text not null,
    changed_at timestamptz not null,
    changed_by text not null,
    --: the definition from then on; null where it stayed
    definition jsonb,
    --: of a rename: the name before, or, of the name that went, the one since
    other_name text
);
create index pecker_schedule_changes_of on {schema}.pecker_schedule_changes (name, id);

-- Runs: which may write, how they ended, and what people see of them over time.

-- The last run of each entry with a timeout that a worker started: a run starts only
-- above it, and a guarded statement writes only at it.
--: celery-pecker: the run that last started of each entry; older runs may not write
create table {schema}.pecker_fences (
    name text primary key,
    era integer not null,
    due_at timestamptz not null,
    --: which retry of the task it is, from 0
    attempt integer not null default 0,
    epoch bigint not null,
    started_at timestamptz not null
) with (fillfactor = 35, {vacuumed(5000)});

-- What became of slots, bounded: a row is what one process reports of up to 60 slots of
-- an entry, written again while it fills. Four arrays of one length, side by side.
--: celery-pecker: reports of the last slots of each entry, for people; nothing depends on it
create table {schema}.pecker_history (
    name text not null,
    first_due timestamptz not null,
    era integer not null,
    holder uuid not null,
    last_due timestamptz not null,
    written_at timestamptz not null,
    --: the slot, microseconds since 1970
    due_us bigint[] not null,
    epoch bigint[] not null,
    --: when it was reported, by the clock of the database, microseconds since 1970
    at_us bigint[] not null,
    --: what: the codes are in celery_pecker.schedules.history and docs/reference/tables.md
    report smallint[] not null,
    -- Who reports: workers do, too, and they have no row in pecker_replicas.
    --: the worker that reports; null: a scheduler, see pecker_replicas
    host text,
    primary key (name, first_due, era, holder)
) with (fillfactor = 70);

-- What became of runs: counted for each entry, with the last good one and the last bad one.
-- A table of its own: a claim skips a row that somebody else locks, so nothing but claims
-- may write to pecker_tasks while slots are due.
--: celery-pecker: how the runs of each entry ended; for people and alarms, nothing depends on
--: it
create table {schema}.pecker_outcomes (
    name text primary key,
    --: slots whose message the broker has, or that a worker took to run
    published bigint not null default 0,
    --: slots that were claimed and had no message and no run
    not_sent bigint not null default 0,
    succeeded bigint not null default 0,
    failed bigint not null default 0,
    overrun bigint not null default 0,
    lost bigint not null default 0,
    refused_late bigint not null default 0,
    refused_overtaken bigint not null default 0,
    refused_unknown bigint not null default 0,
    refused_repeated bigint not null default 0,
    good_era integer,
    --: the last slot whose run succeeded
    good_due timestamptz,
    bad_era integer,
    --: the last slot whose run failed, overran, was lost or was refused; what it was is in
    --: bad_report
    bad_due timestamptz,
    bad_at timestamptz,
    bad_report smallint,
    bad_host text,
    --: what it raised, cut to 200 characters
    bad_error text,
    sent_era integer,
    --: the last slot that was sent; unsent_due the last one that was not
    sent_due timestamptz,
    unsent_era integer,
    unsent_due timestamptz,
    unsent_at timestamptz,
    unsent_report smallint,
    --: no run succeeded after the last bad one
    failing boolean not null generated always as (coalesce(
        (bad_era, bad_due) > (good_era, good_due), bad_due is not null)) stored,
    --: nothing was sent, and nothing succeeded, after the last slot that was not sent
    undelivered boolean not null generated always as (
        coalesce((unsent_era, unsent_due) > (sent_era, sent_due), unsent_due is not null)
        and coalesce((unsent_era, unsent_due) > (good_era, good_due), true)) stored,
    --: why it was not sent, cut to 200 characters; empty where nobody knows
    unsent_error text,
    reported_era integer,
    --: the last slot that was sent and that a worker reported of: begun, ended or refused
    reported_due timestamptz,
    --: the day of that slot, in UTC
    reported_day date generated always as (
        (reported_due at time zone 'UTC')::date) stored,
    --: by when a worker should report of what was sent after that; null: nothing is awaited
    report_by timestamptz,
    --: from when on what was sent counts as unreported; null: all was reported of
    unreported_at timestamptz generated always as (
        case when coalesce(
            (sent_era, sent_due) > (reported_era, reported_due), sent_due is not null)
        then report_by end) stored
) with (fillfactor = 50, {vacuumed(5000)});
-- What alarms look for, so that a look costs what is wrong and not what there is. These
-- columns change with bad news alone, so other updates of the rows stay HOT.
create index pecker_outcomes_failing on {schema}.pecker_outcomes (name)
    where failing or undelivered;
create index pecker_outcomes_bad on {schema}.pecker_outcomes (bad_at)
    where bad_at is not null;
-- Whether any worker has reported lately is asked at each write of counts. The column changes
-- once a day, so that all other updates stay in the page.
create index pecker_outcomes_reported on {schema}.pecker_outcomes (reported_day)
    where reported_day is not null;

-- A row stands only while its process has such runs, and a renewal changes no indexed
-- column: looking through all of them costs nothing, and renewals are HOT.
--: celery-pecker: process lives that have long runs in hand; a life that is not renewed for a
--: minute has lost them
create table {schema}.pecker_lives (
    --: one process life: the one that reports in pecker_history
    holder uuid primary key,
    --: the worker; null: local runs of a scheduler, whose host is in pecker_replicas
    host text,
    --: when it was renewed last; a sweep removes the row only as it read it
    seen_at timestamptz not null,
    --: the runs: entry, slot in microseconds since 1970, era and epoch, side by side
    names text[] not null,
    due_us bigint[] not null,
    eras integer[] not null,
    epochs bigint[] not null
) with (fillfactor = 50, {vacuumed(1000)});

-- A row is what one process counted in a minute, of one 16th of all subjects; folded rows
-- are of all processes, and of 15 or 60 minutes. Bounded by age: rows are folded and purged.
-- Compressed in the row itself: a chart of a month reads 720 of them, and a fetch each out of
-- the TOAST table took as long again.
--: celery-pecker: counts and times of entries, outbox tasks and queues, for charts; nothing
--: depends on it
create table {schema}.pecker_figures (
    --: minutes: 1, as a process wrote it; 15 and 60: folded
    step smallint not null check (step in (1, 15, 60)),
    --: which of the subjects: the CRC-32 of the name modulo 16
    part smallint not null,
    at timestamptz not null,
    --: which process life counted; all zeros in folded rows
    holder uuid not null,
    --: by subject a text like "l14:60 o1:60": see docs/reference/tables.md
    figures jsonb not null,
    primary key (step, part, at, holder)
) with (toast_tuple_target = 1024);
alter table {schema}.pecker_figures alter column figures set storage main;

--: celery-pecker: deploys, restarts of PostgreSQL, schedulers that came and went, for charts
create table {schema}.pecker_marks (
    kind text not null,
    what text not null,
    at timestamptz not null,
    primary key (kind, what)
);

-- Alarms: what is wrong by the tables, who has been sent a notice of it, and who has not yet.

-- One row for each rule that some replica's code has: whoever moves due_at on looks.
--: celery-pecker: rules of alarms, and who looked last; one replica looks at a time
create table {schema}.pecker_alarm_rules (
    rule text primary key,
    due_at timestamptz not null,
    --: when a replica looked last: a clock that reads earlier has stepped back
    looked_at timestamptz not null,
    --: by how much the clock read earlier at the last look; null: it did not
    stepped interval,
    --: of rules that read all entries a part at a time: the last name that was read
    passed text not null default '',
    --: whether a look has come to its end: until then what counters say is no news
    recorded boolean not null default false,
    --: fencing token: each look raises it, and a look writes only under its own
    epoch bigint not null default 0,
    holder uuid,
    --: how bad it is that it rings, as the settings of who looked last say
    severity text not null default 'critical'
        check (severity in ('critical', 'warning'))
) with (fillfactor = 35, {vacuumed(1000)});

--: celery-pecker: what is wrong, and was until lately: one row for a rule and a subject
create table {schema}.pecker_alarms (
    rule text not null,
    --: what it is about: an entry, a job, a task, an observer, a host, …
    subject text not null,
    kind text not null,
    --: pending: not for as long as the rule asks; ringing; recovered
    state text not null check (state in ('pending', 'ringing', 'recovered')),
    detail text not null,
    since timestamptz not null,
    seen_at timestamptz not null,
    rang_at timestamptz,
    recovered_at timestamptz,
    --: whether notices of this ringing were written: its recovery is worth one, too
    noticed boolean not null default false,
    --: when the last notice that it rings was written: the cool-down counts from there
    noticed_at timestamptz,
    --: whether the rule asks for a notice of its recovery
    recovery boolean not null default true,
    --: how often it has begun to ring
    times bigint not null default 0,
    --: who looks after it; null: nobody, or it has recovered since
    taken_by text,
    taken_at timestamptz,
    --: what they said when they took it
    note text,
    --: until then nothing is sent of it
    snoozed_until timestamptz,
    --: who said that nothing is sent of it; null: it is not muted
    muted_by text,
    primary key (rule, subject)
) with (fillfactor = 70, {vacuumed(1000)});
create index pecker_alarms_open on {schema}.pecker_alarms (rule, subject)
    where state <> 'recovered';
-- How many began or ended within a minute: what is more is a storm.
create index pecker_alarms_lately on {schema}.pecker_alarms
    (rule, (greatest(noticed_at, recovered_at)));

-- A notice is a row from the statement that rings on until its target has it. A newer one
-- about the same alarm takes the place of one that waits, so they are never more than
-- alarms times targets however long a target is away.
--: celery-pecker: notices of alarms, until their target has them
create table {schema}.pecker_alarm_notices (
    id bigint generated always as identity primary key,
    --: log, or a name in pecker_alarms_to; addresses are secrets and stand in no table
    target text not null,
    rule text not null,
    subject text not null,
    kind text not null,
    event text not null check (event in ('ringing', 'recovered', 'trial')),
    detail text not null,
    since timestamptz not null,
    at timestamptz not null,
    --: nobody else sends it before: one has it in hand, or its target is failing
    held_until timestamptz not null,
    holder uuid,
    --: fencing token: who takes it raises it; a newer notice in its place has a new id
    epoch bigint not null default 0,
    tries integer not null default 0,
    last_error text,
    --: of a storm, one notice for all: what it is about; null: the subject alone
    subjects text[],
    unique (target, rule, subject)
) with (fillfactor = 70, {vacuumed(1000)});
create index pecker_alarm_notices_due on {schema}.pecker_alarm_notices (held_until);

--: celery-pecker: where notices of alarms go, and which of it fails
create table {schema}.pecker_alarm_targets (
    target text primary key,
    sent bigint not null default 0,
    sent_at timestamptz,
    failures integer not null default 0,
    failing_since timestamptz,
    --: until then nothing is sent there: it fails; null: it does not
    next_at timestamptz,
    last_error text
);

-- A counter that has risen by so much since its mark rings; then the mark moves on.
--: celery-pecker: what counters said before they rose
create table {schema}.pecker_alarm_marks (
    rule text not null,
    subject text not null,
    value bigint not null,
    --: what it said at the last look that found it risen: the next window counts from there
    seen bigint not null,
    --: when the first rise after it was seen: the window begins; null: it did not rise
    at timestamptz,
    --: when it last rose by as much as the rule asks, within its window
    rung_at timestamptz,
    --: by how much it rose then
    rose bigint not null default 0,
    detail text not null default '',
    primary key (rule, subject)
);

-- The outbox: messages that Celery built and that were recorded beside the data they
-- are about, until the broker has them or until their task has succeeded.

-- No foreign key, no trigger and no NOTIFY: recording is one insert in the transaction
-- of the caller. Rows of mode 0 are never updated, so no page needs room.
--: celery-pecker: messages recorded in transactions, until they are delivered
create table {schema}.pecker_outbox (
    id bigint generated always as identity primary key,
    --: not before; null: at once, and nothing has to be compared
    due_at timestamptz,
    --: 0 relay: until the broker has it; 1 until_done: until the task succeeded; 2 local: as 1,
    --: run by a worker without the broker
    mode smallint not null default 0 check (mode between 0 and 2),
    priority smallint,
    task text not null,
    task_id text not null,
    exchange text not null,
    routing_key text not null,
    content_type text not null,
    content_encoding text not null,
    --: queues and exchanges that Celery declares before it sends, as JSON; null: none
    declare text,
    --: headers of the message, as JSON; eta is null, because it is due_at
    headers text not null,
    --: properties of the message, as JSON
    properties text not null,
    --: the body as Celery serialized and compressed it
    body bytea not null,
    --: while a row of this key waits, another of the same key is not recorded
    dedupe_key text,
    created_at timestamptz not null,
    --: of modes 1 and 2: how many runs have started; null: none
    attempt integer,
    --: of modes 1 and 2: fencing token of the run that has it
    epoch bigint,
    --: of modes 1 and 2: whether a run has started and nobody reported its end
    running boolean,
    --: of mode 1: messages sent since the last run started; null: none
    pushes smallint,
    --: of modes 1 and 2: when the last push or run moved due_at
    held_at timestamptz,
    --: of modes 1 and 2: where it moved due_at to; until then no other run starts
    held_until timestamptz,
    --: since when it waits for somebody to look at it: see last_error
    parked_at timestamptz,
    last_error text
) with ({vacuumed(5000)});
-- What a relay walks: in the order of ids, without a look at what waits.
create unique index pecker_outbox_ready on {schema}.pecker_outbox (id)
    where mode = 0 and due_at is null and parked_at is null;
-- What waits for its time.
create index pecker_outbox_later on {schema}.pecker_outbox (due_at, id)
    where mode = 0 and due_at is not null and parked_at is null;
-- What runs until it is done, by task: each task's rows are found beside a million
-- of another's, and one task's backlog keeps none of the others waiting.
create index pecker_outbox_runs on {schema}.pecker_outbox (mode, task, (coalesce(due_at, created_at)), id)
    where mode > 0 and parked_at is null;
-- What was held before the clock stepped back.
create index pecker_outbox_held on {schema}.pecker_outbox (held_at)
    where held_at is not null and parked_at is null;
-- What people look at first: what is parked, and what has failed most often.
create index pecker_outbox_parked on {schema}.pecker_outbox (id)
    where parked_at is not null;
create index pecker_outbox_attempts on {schema}.pecker_outbox (attempt desc, id)
    where attempt > 0;
create unique index pecker_outbox_key on {schema}.pecker_outbox (dedupe_key)
    where dedupe_key is not null;

-- What was done, of modes 1 and 2, for people: the newest of it.
--: celery-pecker: rows of pecker_outbox whose task succeeded, the newest of them
create table {schema}.pecker_outbox_done (
    number bigint generated always as identity primary key,
    --: of the row in pecker_outbox
    id bigint not null,
    task text not null,
    task_id text not null,
    --: which run of it succeeded, from 1
    attempt integer not null,
    --: whether its emergency completion did it
    emergency boolean not null,
    created_at timestamptz not null,
    done_at timestamptz not null
) with ({vacuumed(5000)});

-- How hard the processing may work; people change it while workers run.
--: celery-pecker: one row: how hard the processing may work; null: the default
create table {schema}.pecker_outbox_load (
    id smallint primary key default 1 check (id = 1),
    --: of mode 2, in each worker; 0: nothing is taken
    threads smallint check (threads between 0 and 1000),
    --: seconds that a thread rests when nothing was due
    pause_empty real check (pause_empty between 0 and 3600),
    --: seconds that a thread rests after a run that failed
    pause_error real check (pause_error between 0 and 3600),
    --: seconds that a thread rests after a run that succeeded
    pause_done real check (pause_done between 0 and 3600),
    --: of modes 1 and 2: what is not named waits; null: nothing waits
    only_tasks text[],
    changed_at timestamptz not null
);

-- What relays hold: a batch of ids under one token, never a mark in the rows, which
-- would cost each row a second write.
--: celery-pecker: rows of pecker_outbox that a relay has in hand
create table {schema}.pecker_outbox_batches (
    batch bigint generated always as identity primary key,
    --: under which Redis knows what was pushed of it
    token uuid not null,
    ids bigint[] not null,
    holder uuid not null,
    --: fencing token: each relay that takes the batch raises it
    epoch bigint not null,
    hold interval not null,
    --: after it another relay may take the batch, whole
    held_until timestamptz not null,
    --: its messages are sent one by one
    alone boolean not null default false,
    --: how often it was taken over
    tries integer not null default 0,
    created_at timestamptz not null
) with (fillfactor = 50, {vacuumed(1000)});

-- One row: whoever changes what can be claimed takes the turn.
--: celery-pecker: one claim at a time on pecker_outbox
create table {schema}.pecker_outbox_turn (
    id smallint primary key default 1 check (id = 1),
    turn bigint not null default 0,
    --: up to this id of pecker_outbox nothing waits: from here a new relay looks
    passed bigint not null default 0
) with (fillfactor = 10, {vacuumed(1000)});
insert into {schema}.pecker_outbox_turn default values;

--: celery-pecker: processes that deliver what pecker_outbox holds; for people
create table {schema}.pecker_outbox_relays (
    holder uuid primary key,
    host text not null,
    pid integer not null,
    started_at timestamptz not null,
    seen_at timestamptz not null,
    sent bigint not null default 0,
    retried bigint not null default 0,
    parked bigint not null default 0,
    --: why it cannot send; null: it can
    broker text,
    --: messages that it sends per second, by task
    rates jsonb not null default '{}'
);

-- What requests of the intake recorded, so that one that comes again records nothing.
--: celery-pecker: Idempotency-Key of requests that recorded tasks, for a day
create table {schema}.pecker_intake_keys (
    key text primary key,
    --: SHA-256 of the request's body: the same key with another body is refused
    digest bytea not null,
    task_ids text[] not null,
    created_at timestamptz not null
);
create index pecker_intake_keys_created on {schema}.pecker_intake_keys (created_at);

-- Observers: jobs that run until they are stopped, on hosts that hold one lease each.

-- What hosts can run: one row for each kind of observer that code declares. Who starts
-- an observer by name needs none of its code.
--: celery-pecker: kinds of observers that hosts can run
create table {schema}.pecker_observer_kinds (
    kind text primary key,
    weight integer not null check (weight > 0),
    --: signature that is sent when one is parked, as JSON; null: none
    on_parked text,
    --: signature that is sent when one has moved, as JSON; null: none
    on_moved text,
    seen_at timestamptz not null
);

-- One row for each life of a host process. Its lease is the only thing that is renewed:
-- the rows of its observers are not written while all is well.
--: celery-pecker: hosts of observers, one row for each life of a process
create table {schema}.pecker_observer_nodes (
    node uuid primary key,
    --: what people call it; a host that comes back has the same name and another id
    name text not null,
    pid integer not null,
    --: the sum of weights that it may hold
    capacity integer not null check (capacity > 0),
    --: kinds of observers that its code has
    kinds text[] not null,
    --: up; draining: gives away what it has and takes nothing; dead: left, or buried
    state text not null check (state in ('up', 'draining', 'dead')),
    --: length of its lease
    ttl interval not null,
    --: since when its lease is unbroken: who has none for a whole ttl buries nobody
    since timestamptz not null,
    --: after it others may bury the host
    leased_until timestamptz not null,
    started_at timestamptz not null,
    --: when it left or was buried; null: it did not
    left_at timestamptz
) with (fillfactor = 35, {vacuumed(1000)});

--: celery-pecker: jobs that run until they are stopped
create table {schema}.pecker_observers (
    id bigint generated always as identity primary key,
    --: what people call it; unique among those that are not deleted
    name text not null,
    kind text not null,
    args jsonb not null default '{}',
    weight integer not null check (weight > 0),
    --: created, processing, on_deleting, deleted: forward only
    status text not null default 'created'
        check (status in ('created', 'processing', 'on_deleting', 'deleted')),
    --: the host that runs it; null: none does
    node uuid,
    --: the host that ran it last
    last_node uuid,
    --: fencing token: each host that takes the row raises it
    epoch bigint not null default 0,
    --: the life of this epoch is to end and to begin anew; null: none is
    restart bigint,
    --: no host takes it before; after a failure: when it is tried again
    not_before timestamptz not null,
    --: how often it failed in a row
    failures integer not null default 0,
    --: how often another host than before has taken it
    moves integer not null default 0,
    --: since when it waits for people: see last_error
    parked_at timestamptz,
    last_error text,
    --: the small cursor that its next life begins from
    state jsonb,
    on_parked text,
    on_moved text,
    created_at timestamptz not null,
    modified_at timestamptz not null,
    check (node is null or (parked_at is null and status in ('processing', 'on_deleting')))
) with (fillfactor = 70, {vacuumed(5000)});
create unique index pecker_observers_name on {schema}.pecker_observers (name)
    where status <> 'deleted';
create index pecker_observers_deleted on {schema}.pecker_observers (name, id)
    where status = 'deleted';
-- What a host holds, and how heavy that is.
create index pecker_observers_held on {schema}.pecker_observers (node) include (weight)
    where node is not null;
-- What people asked of those that run.
create index pecker_observers_orders on {schema}.pecker_observers (node)
    where node is not null and (status = 'on_deleting' or restart is not null);
-- What no host has.
create index pecker_observers_waiting on {schema}.pecker_observers (kind, not_before) include (weight)
    where node is null and parked_at is null and status in ('created', 'processing');
create index pecker_observers_parked on {schema}.pecker_observers (parked_at)
    where parked_at is not null;

-- What happened to observers, for people; the newest of it.
--: celery-pecker: what happened to observers, the newest of it
create table {schema}.pecker_observer_history (
    id bigint generated always as identity primary key,
    --: id of the row in pecker_observers
    observer bigint not null,
    name text not null,
    kind text not null,
    --: created, started, moved, restarting, failed, parked, released, stopping, stopped
    event text not null,
    node uuid,
    epoch bigint not null,
    at timestamptz not null,
    error text
) with ({vacuumed(5000)});
create index pecker_observer_history_name on {schema}.pecker_observer_history (name, id);

-- Signatures that are to be sent: written with the event, deleted when they are sent.
--: celery-pecker: on_parked and on_moved of observers, until they are sent
create table {schema}.pecker_observer_notices (
    id bigint generated always as identity primary key,
    signature text not null,
    --: what the signature is called with
    event jsonb not null,
    --: no host sends it before: one has it in hand, or failed to send it
    held_until timestamptz not null,
    tries integer not null default 0,
    created_at timestamptz not null,
    last_error text
) with (fillfactor = 70, {vacuumed(1000)});
create index pecker_observer_notices_due on {schema}.pecker_observer_notices (held_until);
create index pecker_observer_notices_tried on {schema}.pecker_observer_notices (tries)
    where tries > 1;

-- Sharded jobs: their layers, shards, items, results, errors and tickets.

--: one row for each sharded job
create table {schema}.pecker_jobs (
    job bigint generated always as identity primary key,
    --: the task id by which Celery knows it
    task_id text not null unique,
    --: the processor: name of a Celery task
    task text not null,
    --: a second submission of the same task and key follows the first until it has ended
    key text,
    --: submitted, planning, sharding, posting; delivering: decided, to be reported to Celery
    stage text not null default 'submitted' check (
        stage in ('submitted', 'planning', 'sharding', 'posting', 'delivering', 'ended')
    ),
    outcome text check (outcome in ('succeeded', 'failed', 'cancelled')),
    --: raised when ended shards are run again
    run integer not null default 1,
    --: the fencing token of who plans, posts or delivers; it never goes back
    epoch bigint not null default 0,
    holder text,
    leased_until timestamptz,
    --: how often the stage in hand was begun: it is not begun without end
    attempts integer not null default 0,
    --: when a message for the stage in hand was last sent; no message is load-bearing
    sent_at timestamptz,
    paused boolean not null default false,
    --: shards that run at once, at most
    concurrency integer not null check (concurrency > 0),
    options jsonb not null,
    --: arguments, or what names stored items
    call bytea not null,
    --: chain, chord, group, links and stamps that the job was called with
    continuation jsonb not null,
    --: the layer that runs now, from 0
    layer integer not null default 0,
    layers integer not null default 0,
    total bigint not null default 0,
    --: how many thresholds of progress were reported
    notified integer not null default 0,
    --: when progress was last reported to the result backend
    reported_at timestamptz,
    --: what the job returns, encoded
    value bytea,
    --: why it failed: code, type, message, traceback
    error jsonb,
    --: the job whose outcome is its own: it had the same key
    follows bigint,
    submitted_at timestamptz not null,
    planned_at timestamptz,
    decided_at timestamptz,
    ended_at timestamptz,
    deadline_at timestamptz,
    -- One process at a time calls Notify of a job, so that thresholds come in their order.
    --: who calls Notify, until notifier_until; thresholds are reported in their order
    notifier text,
    notifier_until timestamptz
);
-- A key has one leader that has not ended.
create unique index pecker_jobs_key on {schema}.pecker_jobs (task, key)
    where key is not null and follows is null and stage not in ('delivering', 'ended');
create index pecker_jobs_follows on {schema}.pecker_jobs (follows)
    where follows is not null;
create index pecker_jobs_ended on {schema}.pecker_jobs (ended_at) where stage = 'ended';
-- Of 10,000 open jobs these are the ones that each sweep looks at.
create index pecker_jobs_sharding on {schema}.pecker_jobs (job)
    where stage = 'sharding' and not paused;
create index pecker_jobs_messages on {schema}.pecker_jobs (job)
    where stage in ('submitted', 'planning', 'posting', 'delivering');
create index pecker_jobs_deadline on {schema}.pecker_jobs (deadline_at)
    where deadline_at is not null and stage in ('submitted', 'planning', 'sharding');
-- The figures of all open jobs are counted from the index alone.
create index pecker_jobs_open on {schema}.pecker_jobs (job) include (stage, paused)
    where stage <> 'ended';
-- Messages for Notify that nobody took: while shards run sent_at is theirs.
create index pecker_jobs_notify on {schema}.pecker_jobs (sent_at)
    where stage = 'sharding' and sent_at is not null;

create table {schema}.pecker_layers (
    job bigint not null,
    layer integer not null,
    total bigint not null,
    shards integer not null,
    --: shards that have not ended; the shards themselves are the truth
    open integer not null,
    --: items of ended shards that succeeded; those of running shards stand with them
    done bigint not null default 0,
    failed bigint not null default 0,
    started_at timestamptz,
    closed_at timestamptz,
    primary key (job, layer)
);

-- Narrow, because it is written to again and again. A shard changes its status with almost
-- every write, and both of its indexes are by status: no such write can be HOT, so no page
-- needs room.
create table {schema}.pecker_shards (
    job bigint not null,
    shard integer not null,
    layer integer not null,
    --: 100 waiting, 201 claimed, 202 running, 203 timed out, 301 done, 302 failed, 403 its
    --: process died; 101, 401 and 402 are derived from these and the time
    status smallint not null default 100,
    ticket integer,
    --: seq of the ticket that claimed it: with another, nothing of it may be written
    epoch bigint not null default 0,
    --: the shard whose items it runs: itself, or the one whose failed items it repeats
    origin integer not null,
    lo integer not null default 0,
    hi integer not null,
    --: how many of its items have ended, successes and failures
    cursor integer not null default 0,
    --: items up to here may have been begun: what killed a process lies before
    ahead integer not null default 0,
    done integer not null default 0,
    failed integer not null default 0,
    --: processes that died over it since its cursor last moved
    deaths smallint not null default 0,
    attempt smallint not null default 0,
    --: hostname of the worker that it was dealt to; null: any
    owner text,
    not_before timestamptz,
    claimed_at timestamptz,
    ended_at timestamptz,
    --: places, in the items of the origin, of those it runs; null: from lo to hi
    picks integer[],
    --: the part of a source that its items are read from; null: they are stored
    reference jsonb,
    -- A value that a processor returns went with the call where that was killed or raised.
    --: of those done: items of calls of the processor that returned
    returned integer not null default 0,
    primary key (job, shard)
);
create index pecker_shards_waiting on {schema}.pecker_shards (job, layer, shard)
    where status = 100;
create index pecker_shards_held on {schema}.pecker_shards (job, ticket)
    where status in (201, 202);

--: what each shard works on, encoded
create table {schema}.pecker_items (
    job bigint not null,
    shard integer not null,
    body bytea not null,
    primary key (job, shard)
);
alter table {schema}.pecker_items alter column body set storage external;

--: items that were given in a call: stored before its message is sent
create table {schema}.pecker_inputs (
    ref text primary key,
    items bigint not null,
    body bytea not null,
    stored_at timestamptz not null
);

create table {schema}.pecker_results (
    job bigint not null,
    shard integer not null,
    --: their order: three times the cursor at which they were written, and 1 if the shard was
    --: given back with it, 2 if it was closed; -1: what the processor returned at the end
    at integer not null,
    body bytea not null,
    primary key (job, shard, at)
);
alter table {schema}.pecker_results alter column body set storage external;

create table {schema}.pecker_item_errors (
    job bigint not null,
    origin integer not null,
    --: where in the items of its origin; -1: the shard as a whole
    place integer not null,
    shard integer not null,
    layer integer not null,
    code smallint not null,
    attempt smallint not null,
    type text not null,
    message text not null,
    traceback text,
    item bytea,
    worker text not null,
    at timestamptz not null,
    primary key (job, origin, place)
);

--: who holds one may run shards of the job: there are as many as its concurrency
create table {schema}.pecker_tickets (
    job bigint not null,
    ticket integer not null,
    --: raised each time that it is taken or lost: an older message or holder is nobody
    seq bigint not null default 0,
    state text not null default 'idle' check (state in ('idle', 'sent', 'held')),
    holder text,
    hostname text,
    sent_at timestamptz,
    leased_until timestamptz,
    --: until then it lies idle: a gate said so, or shards wait for their next attempt; of one
    --: that was sent: since when it is on its way
    wake_at timestamptz,
    --: of one that was sent: from when on its message counts as lost
    resend_at timestamptz,
    primary key (job, ticket)
) with (fillfactor = 50);
-- A renewal changes leased_until alone: were that in an index, no renewal could be HOT
-- (heap-only), and each would leave a dead entry in every index of the table. Held tickets
-- are as many as workers have slots, so looking through all of them costs nothing.
create index pecker_tickets_held on {schema}.pecker_tickets (job, ticket)
    where state = 'held';
create index pecker_tickets_sent
    on {schema}.pecker_tickets ((coalesce(resend_at, sent_at)), job)
    where state = 'sent';

--: workers that run shards, as last seen
create table {schema}.pecker_executors (
    hostname text primary key,
    slots integer not null,
    direct_queue text,
    --: those that it consumes from: shards of their jobs may be dealt to it
    queues text[] not null default '{}',
    --: since when it is heard of without a gap
    started_at timestamptz not null,
    seen_at timestamptz not null
);
