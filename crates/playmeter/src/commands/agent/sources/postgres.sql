-- The metrics of a PostgreSQL server in one row, for `playmeter agent`.
with clients as (
  select state, wait_event_type, xact_start from pg_stat_activity
  where backend_type = 'client backend' and pid <> pg_backend_pid()
), databases as (
  select sum(xact_commit) as commits, sum(xact_rollback) as rollbacks, sum(deadlocks) as deadlocks,
    sum(blks_hit) as blocks_hit, sum(blks_read) as blocks_read
  from pg_stat_database
)
select
  (select count(*) from clients)::float8 as connections,
  current_setting('max_connections')::float8 as connections_max,
  (select count(*) from clients where state = 'active')::float8 as active,
  (select count(*) from clients where state = 'idle')::float8 as idle,
  (select count(*) from clients where state like 'idle in transaction%')::float8 as idle_in_transaction,
  (select count(*) from clients where wait_event_type = 'Lock')::float8 as waiting_for_lock,
  -- In seconds; 0 without an open transaction.
  (select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0) from clients)::float8
    as longest_transaction,
  pg_database_size(current_database())::float8 as size,
  -- In seconds: of the slowest replica of this server, or of this server if it is a replica; null if it is neither.
  case when pg_is_in_recovery() then
    case when pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0
      else extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp()) end
  else (select extract(epoch from max(coalesce(replay_lag, interval '0'))) from pg_stat_replication) end::float8
    as replication_lag,
  commits::float8 as commits, rollbacks::float8 as rollbacks, deadlocks::float8 as deadlocks,
  blocks_hit::float8 as blocks_hit, blocks_read::float8 as blocks_read
from databases
