-- lockfence.stats: each kind of event is counted once, also if its transaction
-- is rolled back.
--
-- Mutants that must make this file fail (src/fence_stats.c):
--   flush() at commit only; fence_stats_pending not set back to zero
SELECT current_setting('server_version_num')::int >= 170000
    OR current_setting('shared_preload_libraries') LIKE '%lockfence%' AS shared \gset
\if :shared
\else
\quit
\endif

CREATE TABLE counted (res text, tok bigint);
SELECT fence_protect('counted', 'count:{res}', 'tok');
CREATE TABLE looked_at (res text, tok bigint);
SELECT fence_protect('looked_at', 'count:{res}', 'tok', mode => 'observe');
SELECT fence_stats_reset();
-- the counters that are not zero, and then zero again
CREATE VIEW counted_now AS
    SELECT string_agg(key || '=' || value, ' ' ORDER BY key) AS counters
    FROM lockfence.stats s, jsonb_each_text(to_jsonb(s))
    WHERE key NOT IN ('datname', 'since') AND value <> '0';
SELECT counters FROM counted_now;
SELECT datname = current_database() AS this, since <= clock_timestamp()
       AND since > clock_timestamp() - interval '1 hour' AS since FROM lockfence.stats;
\set VERBOSITY sqlstate

-- tokens
SELECT fence_check('count:a', 5);
INSERT INTO counted VALUES ('a', 5), ('a', 5), ('a', 5);
SELECT counters FROM counted_now;
SELECT fence_stats_reset();
SELECT fence_check('count:a', 4);
INSERT INTO counted VALUES ('a', 3);
INSERT INTO counted VALUES ('a', NULL);
TRUNCATE counted;
SELECT counters FROM counted_now;
SELECT fence_stats_reset();
SELECT fence_check('count:a', 5, 'A'), fence_check('count:b', 5, 'A');
SELECT fence_check('count:b', 5, 'B');
SELECT token FROM fence_acquire('count:issued', 'A', '1 hour') \gset
SELECT fence_check('count:issued', :token + 1);
SELECT counters FROM counted_now;
SELECT fence_stats_reset();
-- refused at commit
BEGIN;
SELECT fence_check('count:a', 9);
SELECT fence_override('count:a', 8);
COMMIT;
BEGIN;
SELECT fence_check('count:a', 6);
SELECT fence_override('count:a', 7);
COMMIT;
-- counted, although the savepoint and the transaction are rolled back
BEGIN;
SAVEPOINT a;
SELECT fence_check('count:a', 1);
ROLLBACK TO a;
SELECT fence_check('count:a', 5);
ROLLBACK;
SELECT counters FROM counted_now;
SELECT fence_stats_reset();

-- a row that is refused for another reason than its token counts at once
INSERT INTO counted VALUES (NULL, 5);
SELECT counters FROM counted_now;
SELECT fence_stats_reset();
-- observed
INSERT INTO looked_at VALUES ('a', 4), ('a', NULL), (NULL, 5), ('a', -1), ('a', 5);
TRUNCATE looked_at;
SELECT counters FROM counted_now;
SELECT fence_stats_reset();

-- leases
SELECT token FROM fence_acquire('count:l', 'A', '1 hour') \gset
SELECT status FROM fence_acquire('count:l', 'A', '1 hour');
SELECT status FROM fence_acquire('count:l', 'B', '1 hour');
SELECT status FROM fence_renew('count:l', :token, 'A', '1 hour');
SELECT status FROM fence_renew('count:l', :token, 'B', '1 hour');
SELECT fence_release('count:l', :token, 'A');
SELECT fence_release('count:l', :token, 'A');
SELECT status FROM fence_acquire_all('{count:l,count:m}', 'A', '10 ms');
SELECT status, how FROM fence_acquire('count:l', 'B', '10 ms', '1 minute') \gset
SELECT :'how' AS how;
-- until it has expired
DO $$ BEGIN WHILE (SELECT live FROM fence_status('count:l')) LOOP END LOOP; END $$;
SELECT fence_release('count:l', NULL, 'B');
SELECT fence_issue('count:m', 'C') > 0 AS issued;
SELECT fence_once('count:a', 5, 'op'), fence_once('count:a', 5, 'op');
SELECT counters FROM counted_now;
SELECT fence_stats_reset();
-- nothing left over
SELECT counters FROM counted_now;

\set VERBOSITY default
DROP VIEW counted_now;
DROP TABLE counted, looked_at;
DELETE FROM lockfence.operations WHERE resource LIKE 'count:%';
DELETE FROM lockfence.fence WHERE resource LIKE 'count:%';
