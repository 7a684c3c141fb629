/* celery_pecker:read_removed */
-- Which of these names were stored schedules and are removed: their rows stay for a day.
select s.name
from {schema}.pecker_schedules as s
where s.name = any (%(names)s::text[]) and s.removed_at is not null
