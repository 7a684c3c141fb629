/* example_project:record_pulse */
-- This run of the local task is on record.
insert into pulses (due_at, era, epoch, worker)
values (%(due_at)s, %(era)s, %(epoch)s, %(worker)s);

/* example_project:pulses */
-- Every run of the local task.
select due_at, began_at
from pulses
order by began_at, id;
