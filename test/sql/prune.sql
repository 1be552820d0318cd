-- fence_prune: forgets idle fences, and no forgotten token is ever accepted.
--
-- Wrong result it would show: a forgotten token that passes, a fence forgotten
-- that is in use or not asked for, or a resource of another prefix touched.
-- Mutants: src/fence_prune.c, may_prune() without fence_row_live(), or without
-- the look at the rule; fence_prune() that raises no floor. src/fence_prefix.c,
-- fence_prefix_lookup() that stops at the longest prefix.
\set VERBOSITY terse
CREATE VIEW fences AS SELECT resource FROM lockfence.fence WHERE resource LIKE 'prune:%' ORDER BY 1;
CREATE VIEW floors AS
    SELECT p.prefix, p.accepts_external, CASE WHEN p.accepts_external IS FALSE AND p.floor > 0 THEN 'issued' ELSE p.floor::text END AS floor
    FROM lockfence.prefix p WHERE p.prefix LIKE 'prune:%' ORDER BY 1;
-- what becomes of a token that is shown, without leaving a fence behind
CREATE FUNCTION shown(resource text, token bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence_check(resource, token);
    RAISE EXCEPTION 'accepted';
EXCEPTION WHEN OTHERS THEN
    RETURN CASE SQLERRM WHEN 'accepted' THEN SQLERRM ELSE SQLSTATE END;
END
$$;

-- there is a token below each that is issued here
SELECT nextval('lockfence.token') > 0 AS issued;

-- issued fences: not under a prefix that accepts external tokens, since an
-- absent resource would then take any
SELECT token AS a FROM fence_acquire('prune:i:a', 'alice', '1 hour') \gset
SELECT fence_release('prune:i:a', :a, 'alice');
SELECT fence_prune('prune:i:', '0');
SELECT fence_prune('prune:i:', '0', true);
SELECT * FROM fences;
SELECT fence_accept_external('prune:i:', false);

-- idle for long enough
SELECT fence_prune('prune:i:', '1 hour');
SELECT fence_prune('prune:i:', '0');
SELECT * FROM fences;
SELECT fence_current('prune:i:a');
-- the absent resource refuses every token
SELECT shown('prune:i:a', :a), shown('prune:i:a', :a - 1), shown('prune:i:a', :a + 1), shown('prune:i:a', 9223372036854775807);

-- rules changed afterwards: what was forgotten is refused for ever
SELECT prefix, accepts_external, floor = :a AS floor FROM lockfence.prefix WHERE prefix LIKE 'prune:%';
SELECT fence_accept_external('prune:i:', true);
SELECT shown('prune:i:a', :a), shown('prune:i:a', :a - 1), shown('prune:i:a', :a + 1);
SELECT fence_accept_external('prune:i:a', true);
SELECT shown('prune:i:a', :a), shown('prune:i:a', :a + 1);
SELECT fence_accept_external('prune:i:a', false), fence_accept_external('prune:i:', false);

-- acquired again: a higher token; the forgotten one stays refused
SELECT token AS a2, token > :a AS higher, how FROM fence_acquire('prune:i:a', 'bob', '1 hour') \gset
SELECT :'higher' AS higher, :'how' AS how, shown('prune:i:a', :a), shown('prune:i:a', :a2);

-- a live lease is never pruned; an expired one, a released one and one issued
-- without a lease are
SELECT token FROM fence_acquire('prune:i:expired', 'alice', '10 ms') \gset
DO $$ BEGIN WHILE (SELECT live FROM fence_status('prune:i:expired')) LOOP PERFORM pg_sleep(0.005); END LOOP; END $$;
SELECT count(fence_issue('prune:i:issued', 'alice'));
SELECT fence_prune('prune:i:', '0');
SELECT * FROM fences;
SELECT fence_check('prune:i:a', :a2);
-- renewals make no difference to what idle means, but keep it live
SELECT status FROM fence_renew('prune:i:a', :a2, 'bob', '1 hour');
SELECT fence_prune('prune:i:', '0', true);
SELECT fence_release('prune:i:a', :a2, 'bob');
SELECT fence_prune('prune:i:', '0');

-- what this transaction raised itself is no exception
BEGIN;
SELECT count(fence_issue('prune:i:own', 'alice'));
SELECT fence_prune('prune:i:', '0');
SELECT fence_current('prune:i:own');
\set VERBOSITY sqlstate
COMMIT;
\set VERBOSITY terse
BEGIN;
SELECT count(fence_issue('prune:i:own', 'alice'));
SAVEPOINT s;
SELECT fence_prune('prune:i:', '0');
ROLLBACK TO s;
COMMIT;
SELECT * FROM fences;

-- external fences only if they are asked for; the floor is that of the prefix
SELECT fence_check('prune:e:a', 50), fence_check('prune:e:b', 70), fence_check('prune:e:c', 60);
SELECT fence_prune('prune:e:', '0');
SELECT fence_prune('prune:e:', '1 hour', true);
SELECT fence_prune('prune:e:', '0', true);
SELECT * FROM fences;
SELECT * FROM floors;
SELECT shown('prune:e:a', 50), shown('prune:e:a', 51), shown('prune:e:a', 70), shown('prune:e:a', 71);
SELECT shown('prune:e:never', 70), shown('prune:e:never', 71);
-- the floor is never lowered, and raised again
SELECT fence_check('prune:e:b', 71);
SELECT fence_prune('prune:e:b', '0', true);
SELECT fence_prune('prune:e:', '0', true);
SELECT * FROM floors;
-- issuing goes on above what was forgotten
SELECT fence_check('prune:e:ahead', 5000000);
SELECT fence_prune('prune:e:ahead', '0', true);
SELECT status, token > 5000000 AS above FROM fence_acquire('prune:e:ahead', 'alice', '1 hour');
SELECT fence_release('prune:e:ahead', NULL, 'alice');
-- a token that nothing could be issued above is not forgotten: its floor would
-- end all issuing there
SELECT fence_check('prune:e:high', 4503599627370496), fence_check('prune:e:low', 4503599627370495);
SELECT fence_prune('prune:e:high', '0', true);
SELECT shown('prune:e:high', 4503599627370495);
SELECT fence_override('prune:e:high', 9);
SELECT fence_prune('prune:e:high', '0', true);
SELECT fence_override('prune:e:low', 9);
SELECT * FROM floors;

-- prefixes are bytes; neighbours and other prefixes are untouched
SELECT fence_check('prune:n', 1), fence_check('prune:n:', 2), fence_check('prune:n:x', 3), fence_check('prune:n;', 4),
       fence_check('prune:m:x', 5), fence_check('prune:n:%', 6), fence_check('prune:n:_', 7);
SELECT fence_prune('prune:n:%', '0', true);
SELECT * FROM fences WHERE resource ~ '^prune:[mn]';
SELECT fence_prune('prune:n:', '0', true);
SELECT * FROM fences WHERE resource ~ '^prune:[mn]';
SELECT * FROM floors WHERE prefix LIKE 'prune:n%';
SELECT shown('prune:m:y', 1), shown('prune:n;', 4), shown('prune:n:x', 6), shown('prune:n:x', 7), shown('prune:n:x', 8);

-- nested prefixes: each floor holds for all below it, the highest decides
SELECT fence_check('prune:x:1', 100), fence_check('prune:x:y:1', 10);
SELECT fence_prune('prune:x:y:', '0', true);
SELECT shown('prune:x:y:1', 10), shown('prune:x:y:1', 11), shown('prune:x:2', 1);
SELECT fence_prune('prune:x:', '0', true);
SELECT shown('prune:x:y:1', 11), shown('prune:x:y:1', 100), shown('prune:x:y:1', 101), shown('prune:x:2', 100);
-- a rule for a longer prefix decides which issued fences may go
SELECT fence_accept_external('prune:r:', false), fence_accept_external('prune:r:ext:', true);
SELECT count(fence_issue('prune:r:' || n, 'alice')) FROM unnest('{1,2,ext:1,ext:2}'::text[]) n;
SELECT fence_prune('prune:r:', '0');
SELECT * FROM fences WHERE resource LIKE 'prune:r:%';
SELECT fence_prune('prune:r:ext:', '0');
SELECT fence_accept_external('prune:r:ext:', false), fence_prune('prune:r:ext:', '0');
-- both kinds at once: each by its own rule
SELECT fence_accept_external('prune:r:', true), fence_accept_external('prune:r:ext:', true), fence_check('prune:r:ext:9', 1000000);
SELECT fence_accept_external('prune:r:', false), fence_accept_external('prune:r:ext:', false);
SELECT count(fence_issue('prune:r:9', 'alice'));
SELECT fence_prune('prune:r:', '0'), fence_prune('prune:r:', '0', true);

-- in batches
SELECT count(fence_issue('prune:i:batch' || n, 'alice')) FROM generate_series(1, 25) n;
SELECT fence_prune('prune:i:batch', '0', max_rows => 10);
SELECT fence_prune('prune:i:batch', '0', max_rows => 10);
SELECT fence_prune('prune:i:batch', '0', max_rows => 10);
SELECT fence_prune('prune:i:batch', '0', max_rows => 10);

-- taken back with its transaction: fences and floor
SELECT count(fence_issue('prune:i:back', 'alice'));
SELECT fence_current('prune:i:back') AS token \gset
BEGIN;
SELECT fence_prune('prune:i:back', '0');
ROLLBACK;
SELECT fence_check('prune:i:back', :token);
SELECT count(*) FROM lockfence.prefix WHERE prefix = 'prune:i:back';

-- in SERIALIZABLE
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT fence_prune('prune:i:back', '0');
COMMIT;
SELECT shown('prune:i:back', :token);

-- the empty prefix is all resources
BEGIN;
SELECT fence_prune('', '0', true) > 0 AS some;
SELECT count(*) FROM lockfence.fence f WHERE NOT f.issued;
ROLLBACK;

-- a walk past what was forgotten before and is still in the index: the scan
-- remembers such entries until it ends (with MALLOC_PERTURB_ set for the
-- server, memory freed too early ends the session here)
SELECT fence_accept_external('prune:d:', false);
SELECT count(fence_issue('prune:d:b' || g, 'h')) FROM generate_series(1, 50) g;
SELECT fence_prune('prune:d:', '0', max_rows => 30);
VACUUM (INDEX_CLEANUP off, TRUNCATE off) lockfence.fence;
SELECT count(fence_issue('prune:d:a' || g, repeat('h', 300))) FROM generate_series(1, 50) g;
SELECT fence_prune('prune:d:', '0', max_rows => 40);
VACUUM (INDEX_CLEANUP off, TRUNCATE off) lockfence.fence;
SELECT fence_prune('prune:d:', '0');

-- arguments
\set VERBOSITY sqlstate
SELECT fence_prune(NULL, '0');
SELECT fence_prune('prune:', NULL);
SELECT fence_prune('prune:', '-1 s');
SELECT fence_prune('prune:', '1000 years');
SELECT fence_prune('prune:', '0', NULL);
SELECT fence_prune('prune:', '0', max_rows => 0);
SELECT fence_prune('prune:', '0', max_rows => -1);
SELECT fence_prune(repeat('x', 513), '0');
BEGIN READ ONLY;
SELECT fence_prune('prune:', '0');
ROLLBACK;

DROP VIEW fences, floors;
DROP FUNCTION shown;
