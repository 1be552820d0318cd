-- lockfence.rejections: what was refused is kept over its rollback, complete,
-- and for those who may see it.
--
-- Mutants that must make this file fail:
--   src/fence_journal.c: read_place() always false
--   src/fence_stats_view.c: may_see() always true
--   src/fence_report.c: record() after the ereport
SELECT current_setting('server_version_num')::int >= 170000
    OR current_setting('shared_preload_libraries') LIKE '%lockfence%' AS shared \gset
\if :shared
\else
\quit
\endif

SET application_name = 'worker-3';
CREATE TABLE refused (res text, tok bigint);
SELECT fence_protect('refused', 'refuse:{res}', 'tok');
CREATE VIEW last_one AS
    SELECT datname = current_database() AS here, usename = session_user AS me,
           application_name, client_addr, pid = pg_backend_pid() AS my_pid, resource,
           token, holder, fence, fence_holder, target, command, place, sqlstate, observed
    FROM lockfence.rejections ORDER BY at DESC LIMIT 1;
\x
\set VERBOSITY sqlstate
SELECT fence_check('refuse:a', 5, 'A');
-- at a statement, by function and by table
SELECT fence_check('refuse:a', 4, 'B');
TABLE last_one;
INSERT INTO refused VALUES ('a', 3);
TABLE last_one;
INSERT INTO refused VALUES ('a', 5);
DELETE FROM refused;
TABLE last_one;
SELECT fence_check('refuse:a', 5, 'B');
TABLE last_one;
TRUNCATE refused;
TABLE last_one;
COPY refused FROM stdin;
a	1
\.
TABLE last_one;
-- never issued
SELECT token FROM fence_acquire('refuse:i', 'A', '1 hour') \gset
SELECT fence_check('refuse:i', 9007199254740993);
SELECT token, fence = :token AS fence, fence_holder, sqlstate FROM last_one;
-- a resource of the greatest length
SELECT fence_check('refuse:' || repeat('r', 505), 2, repeat('h', 512));
SELECT fence_check('refuse:' || repeat('r', 505), 1, repeat('g', 512));
SELECT length(resource), length(holder), length(fence_holder) FROM last_one;
-- at commit
BEGIN;
SELECT fence_check('refuse:a', 6);
INSERT INTO refused VALUES ('a', 6);
SELECT fence_override('refuse:a', 7);
COMMIT;
TABLE last_one;
BEGIN;
SELECT fence_check('refuse:a', 8);
SELECT fence_override('refuse:a', 9);
PREPARE TRANSACTION 'refuse';
SELECT token, place, command FROM last_one;
-- observed
SELECT fence_protect('refused', 'refuse:{res}', 'tok', mode => 'observe');
INSERT INTO refused VALUES ('a', 4);
TABLE last_one;
INSERT INTO refused VALUES (NULL, 6);
SELECT resource, target, sqlstate, observed FROM last_one;
INSERT INTO refused VALUES ('a', 0);
SELECT resource, token, target, sqlstate, observed FROM last_one;
ALTER TABLE refused RENAME res TO other;
INSERT INTO refused VALUES ('a', 6);
SELECT resource, target, sqlstate, observed FROM last_one;
ALTER TABLE refused RENAME other TO res;
-- no right has a wrong token to be kept
SELECT fence_check('refuse:a', 0);
SELECT token, sqlstate FROM last_one;

-- Others see that something was refused, and when.
CREATE ROLE regress_monitor;
CREATE ROLE regress_stats IN ROLE pg_read_all_stats;
SELECT fence_grant('regress_monitor', 'monitor'), fence_grant('regress_stats', 'monitor');
SELECT fence_check('refuse:a', 1, 'B');
GRANT SELECT ON last_one TO regress_monitor, regress_stats;
SET ROLE regress_monitor;
SELECT pid = pg_backend_pid() AS pid, application_name, resource, token, holder, fence,
       fence_holder, target, command, place, sqlstate, observed
FROM lockfence.rejections ORDER BY at DESC LIMIT 1;
SET ROLE regress_stats;
SELECT pid = pg_backend_pid() AS pid, application_name, resource, token, holder, fence,
       fence_holder, target, command, place, sqlstate, observed
FROM lockfence.rejections ORDER BY at DESC LIMIT 1;
RESET ROLE;

-- a dropped table has its number left
DROP TABLE refused;
SELECT target::text ~ '^[0-9]+$' AS number FROM lockfence.rejections
WHERE command = 'TRUNCATE TABLE' ORDER BY at DESC LIMIT 1;

\x
\set VERBOSITY default
DROP VIEW last_one;
DROP OWNED BY regress_monitor, regress_stats;
DROP ROLE regress_monitor, regress_stats;
DELETE FROM lockfence.fence WHERE resource LIKE 'refuse:%';
