-- lockfence.activity: what open and prepared transactions are admitted for,
-- judged by the fence as it is now.
--
-- Mutants that must make this file fail:
--   src/fence_session.c: fence_activity_follow() not called
--   src/fence_activity.c: end_transaction() gives no place back
--   src/fence_stats_view.c: is_stale() without asking for the blocker
SELECT current_setting('server_version_num')::int >= 170000
    OR current_setting('shared_preload_libraries') LIKE '%lockfence%' AS shared \gset
\if :shared
\else
\quit
\endif

CREATE VIEW admitted AS
    SELECT pid = pg_backend_pid() AS me, gid, resource, token, fence, stale,
           since = transaction_timestamp() AS since_begin
    FROM lockfence.activity ORDER BY resource, gid;
TABLE admitted;
BEGIN;
SELECT fence_check('act:a', 1), fence_check('act:b', 1);
TABLE admitted;
-- a higher token replaces the one before
SELECT fence_check('act:a', 2);
TABLE admitted;
-- and comes back
SAVEPOINT s;
SELECT fence_check('act:a', 3), fence_check('act:c', 1);
TABLE admitted;
ROLLBACK TO s;
TABLE admitted;
SAVEPOINT t;
SELECT fence_check('act:d', 1);
RELEASE t;
TABLE admitted;
-- stale: nobody can have raised it but this session itself
SELECT fence_override('act:b', 5);
TABLE admitted;
\set VERBOSITY sqlstate
COMMIT;
TABLE admitted;

-- leases
BEGIN;
SELECT status, how FROM fence_acquire('act:l', 'A', '1 hour');
SELECT me, resource, fence = token AS current, stale FROM admitted;
ROLLBACK;
TABLE admitted;

-- no more than sixteen of one transaction
BEGIN;
SELECT count(*) FROM generate_series(1, 100) g, fence_check('act:many:' || g, 1) c;
SELECT count(*), min(resource) FROM admitted;
ROLLBACK;
TABLE admitted;

-- An error gives the places back.
BEGIN;
SELECT fence_check('act:a', 7);
SELECT 1/0;
COMMIT;
TABLE admitted;

-- prepared
BEGIN;
SELECT fence_check('act:p', 1);
PREPARE TRANSACTION 'regress_act';
BEGIN;
SELECT fence_check('act:q', 1);
SELECT me, gid, resource, token, fence, stale FROM admitted;
COMMIT;
SELECT me, gid, resource, token, fence, stale FROM admitted;
COMMIT PREPARED 'regress_act';
TABLE admitted;

-- Others see that there is one.
CREATE ROLE regress_monitor;
SELECT fence_grant('regress_monitor', 'monitor');
BEGIN;
SELECT fence_check('act:a', 10);
SET LOCAL ROLE regress_monitor;
SELECT pid = pg_backend_pid() AS me, gid, resource, token, fence, stale,
       since = transaction_timestamp() AS since_begin FROM lockfence.activity;
ROLLBACK;
DROP VIEW admitted;
DROP OWNED BY regress_monitor;
DROP ROLE regress_monitor;

-- evicting: rights, and nobody there
SELECT fence_evict('act:a'), fence_evict('act:unknown');
SELECT fence_evict(NULL);
SELECT fence_evict('');
CREATE ROLE regress_nobody;
SET ROLE regress_nobody;
SELECT fence_evict('act:a');
SELECT fence_stats_reset();
SELECT fence_bypass('pg_class', 'why not');
SELECT * FROM fence_audit();
SELECT * FROM lockfence.stats;
SELECT * FROM lockfence.rejections;
SELECT * FROM lockfence.activity;
RESET ROLE;
DROP ROLE regress_nobody;
\set VERBOSITY default
DELETE FROM lockfence.fence WHERE resource LIKE 'act:%';
