/* throttle:signal */
-- Rows of other roles are seen whole by members of pg_read_all_stats only (pg_monitor is
-- one): without it all of them seem idle.
select extract(epoch from clock_timestamp())::float8 as at,
       (select count(*)
          from pg_stat_activity
         where state = 'active'
           and backend_type in ('client backend', 'parallel worker')
           and pid <> pg_backend_pid())::float8 as active,
       pg_wal_lsn_diff(
           case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                else pg_current_wal_lsn() end,
           '0/0')::float8 as written,
       case when pg_is_in_recovery()
            then case when pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0
                      else extract(epoch from clock_timestamp()
                                            - pg_last_xact_replay_timestamp()) end
            else (select max(extract(epoch from replay_lag)) from pg_stat_replication)
       end::float8 as lag,
       pg_has_role('pg_read_all_stats', 'usage') as sees_all
