/* example_project:record_run */
-- This run of the sweep is on record, with the slot that its message names. The winner
-- is the pid of the scheduler that holds pecker's row under the very epoch that the
-- message carries: it is unknown when the next slot was claimed before this run began.
insert into sweep_runs (
    id, task_id, name, due_at, era, epoch, began_at, worker, won_by
)
select %(id)s, %(task_id)s, %(name)s, %(due_at)s::timestamptz, %(era)s, %(epoch)s,
       clock_timestamp() - make_interval(secs => %(since)s::float8),
       %(worker)s,
       (
           select r.pid
           from pecker_tasks as t
           join pecker_replicas as r on r.holder = t.holder
           where t.name = %(name)s
             and t.epoch = %(epoch)s
       )
on conflict (id) do nothing;

/* example_project:close_run */
-- The run of the sweep enqueued so many checks.
update sweep_runs
set taken = %(taken)s
where id = %(id)s;
