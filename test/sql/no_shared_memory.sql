-- Without shared memory (before 17 and not preloaded) the views and functions
-- that need it say what to do, and a refusal is what it always is.
--
-- Mutant that must make this file fail: src/fence_shared.c,
-- fence_shared_needed() without its error
SELECT current_setting('server_version_num')::int >= 170000
    OR current_setting('shared_preload_libraries') LIKE '%lockfence%' AS shared \gset
\if :shared
\quit
\endif
SELECT * FROM lockfence.stats;
SELECT * FROM lockfence.rejections;
SELECT * FROM lockfence.activity;
SELECT fence_stats_reset();
SELECT fence_evict('none:a');

-- enforced, observed and bypassed all the same
SELECT fence_check('none:a', 5);
SELECT fence_check('none:a', 4);
CREATE TABLE unseen (res text, tok bigint);
SELECT fence_protect('unseen', 'none:{res}', 'tok', mode => 'observe');
INSERT INTO unseen VALUES ('a', 4);
SELECT fence_protect('unseen', 'none:{res}', 'tok');
\set VERBOSITY sqlstate
INSERT INTO unseen VALUES ('a', 4);
BEGIN;
SELECT fence_bypass('unseen', 'test');
INSERT INTO unseen VALUES ('a', 4);
COMMIT;
DROP TABLE unseen;
DELETE FROM lockfence.fence WHERE resource = 'none:a';
