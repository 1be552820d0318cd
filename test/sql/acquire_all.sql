-- fence_acquire_all: several leases with one token, all or none.
--
-- Wrong result it would show: some of the resources taken and others not, or
-- another token for one of them, or the wrong resource named.
-- Mutants: src/fence_acquire.c, decide_together() that compares no tokens;
-- fence_acquire_all() that locks without a look at each before.
\set VERBOSITY terse
CREATE VIEW all_leases AS
    SELECT resource, dense_rank() OVER (ORDER BY token) AS token, holder, live
    FROM lockfence.leases WHERE resource LIKE 'all:%' ORDER BY resource;

-- all, in whatever order they are named, each once
SELECT status, token > 0 AS token, how, held_by, expires_at > clock_timestamp() AS later,
       valid_for, retry_after, reason, resource
FROM fence_acquire_all('{all:c,all:a,all:b,all:a,all:c}', 'alice', '1 hour');
SELECT * FROM all_leases;
SELECT fence_current('all:a') AS token \gset
SELECT fence_check('all:a', :token), fence_check('all:b', :token, 'alice'), fence_check('all:c', :token);

-- again, by the same holder with all of them: the same token
SELECT status, token = :token AS same, how, valid_for FROM fence_acquire_all('{all:a,all:b,all:c}', 'alice', '2 hours');
-- with fewer of them, too
SELECT status, token = :token AS same, how FROM fence_acquire_all('{all:c,all:b}', 'alice', '1 hour');
SELECT * FROM all_leases;

-- none: the held one is named, and nothing is locked or written
SELECT string_agg((xmin, xmax, ctid)::text, ' ' ORDER BY resource) AS versions FROM lockfence.fence WHERE resource LIKE 'all:%' \gset
SELECT count(*) AS fences, (SELECT last_value FROM lockfence.token) AS sequence FROM lockfence.fence \gset
SELECT status, token, how, held_by, expires_at, valid_for, retry_after <= '1 hour' AS retry, reason, resource
FROM fence_acquire_all('{all:d,all:b,all:0}', 'bob', '1 hour');
SELECT resource FROM fence_acquire_all('{all:c,all:b}', 'bob', '1 hour');
SELECT count(*) = :fences AS same_fences, (SELECT last_value FROM lockfence.token) = :sequence AS no_token_used FROM lockfence.fence;

-- a free one before the held one stays as it was
SELECT fence_release('all:a', :token, 'alice');
SELECT (xmin, xmax, ctid)::text AS version FROM lockfence.fence WHERE resource = 'all:a' \gset
SELECT status, resource FROM fence_acquire_all('{all:a,all:b}', 'bob', '1 hour');
SELECT (xmin, xmax, ctid)::text = :'version' AS untouched FROM lockfence.fence WHERE resource = 'all:a';
SELECT status, reason, resource FROM fence_acquire_all('{all:a,all:b}', 'bob', '1 hour', '20 ms');
SELECT (xmin, xmax, ctid)::text = :'version' AS untouched FROM lockfence.fence WHERE resource = 'all:a';

-- part of them is this holder's own: a token for all would end what it does
SELECT status, held_by, reason, resource FROM fence_acquire_all('{all:a,all:b}', 'alice', '1 hour');
SELECT status, reason FROM fence_acquire_all('{all:b,all:new}', 'alice', '1 hour');
SELECT status FROM fence_acquire('all:a', 'alice', '1 hour');
-- both are, with different tokens
SELECT status, reason, resource FROM fence_acquire_all('{all:a,all:b}', 'alice', '1 hour');
SELECT * FROM all_leases;

-- renewed, checked and released one by one with the one token
SELECT status FROM fence_renew('all:b', :token, 'alice', '2 hours');
SELECT fence_release('all:b', :token, 'alice'), fence_release('all:c', :token, 'alice'), fence_release('all:a', NULL, 'alice');
SELECT * FROM all_leases;

-- how: takeover if the last lease of any of them ended without a release
SELECT token FROM fence_acquire('all:b', 'carol', '10 ms') \gset
DO $$ BEGIN WHILE (SELECT live FROM fence_status('all:b')) LOOP PERFORM pg_sleep(0.005); END LOOP; END $$;
SELECT status, how FROM fence_acquire_all('{all:a,all:b}', 'dave', '1 hour');
\set VERBOSITY sqlstate
SELECT fence_check('all:b', :token, 'carol');
\set VERBOSITY terse
SELECT fence_release('all:a', NULL, 'dave'), fence_release('all:b', NULL, 'dave');
SELECT status, how FROM fence_acquire_all('{all:a,all:b}', 'dave', '1 hour');
SELECT fence_release('all:a', NULL, 'dave'), fence_release('all:b', NULL, 'dave');

-- in a transaction, a savepoint, PL/pgSQL with EXCEPTION, SERIALIZABLE
BEGIN;
SELECT status, how FROM fence_acquire_all('{all:a,all:b}', 'erin', '1 hour');
SELECT status, how FROM fence_acquire_all('{all:b,all:a}', 'erin', '1 hour');
SAVEPOINT s;
SELECT status, how FROM fence_acquire_all('{all:e,all:f}', 'erin', '1 hour');
ROLLBACK TO s;
SELECT * FROM all_leases;
ROLLBACK;
SELECT * FROM all_leases;
DO $$
DECLARE
    answer record;
BEGIN
    BEGIN
        SELECT * INTO answer FROM fence_acquire_all('{all:a,all:b}', 'erin', '1 hour');
        RAISE division_by_zero;
    EXCEPTION WHEN division_by_zero THEN
        NULL;
    END;
    SELECT * INTO answer FROM fence_acquire_all('{all:b,all:g}', 'frank', '1 hour');
    RAISE NOTICE '%', answer.status;
END
$$;
SELECT * FROM all_leases;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT status, how FROM fence_acquire_all('{all:g,all:b}', 'frank', '1 hour');
SELECT status, how FROM fence_acquire_all('{all:h,all:a}', 'frank', '1 hour');
COMMIT;
SELECT * FROM all_leases;

-- what this transaction wrote under an earlier token is judged
SELECT fence_release(resource, NULL, 'frank') FROM lockfence.leases WHERE resource LIKE 'all:%';
SELECT token FROM fence_acquire('all:a', 'gina', '1 hour') \gset
BEGIN;
SELECT fence_check('all:a', :token);
SELECT fence_release('all:a', :token, 'gina');
SELECT status FROM fence_acquire_all('{all:a,all:b}', 'gina', '1 hour');
ROLLBACK;

-- the whole is undone by an error on the way, and the transaction goes on
SELECT fence_check('all:ext', 7);
\set VERBOSITY sqlstate
SELECT * FROM fence_acquire_all('{all:b,all:ext,all:z}', 'alice', '1 hour');
BEGIN;
SAVEPOINT s;
SELECT * FROM fence_acquire_all('{all:b,all:ext}', 'alice', '1 hour');
ROLLBACK TO s;
SELECT status FROM fence_acquire_all('{all:b}', 'alice', '1 hour');
COMMIT;

-- arguments
SELECT * FROM fence_acquire_all(NULL, 'alice', '1 hour');
SELECT * FROM fence_acquire_all('{}', 'alice', '1 hour');
SELECT * FROM fence_acquire_all('{all:k,NULL}', 'alice', '1 hour');
SELECT * FROM fence_acquire_all('{all:k,""}', 'alice', '1 hour');
SELECT * FROM fence_acquire_all(ARRAY['all:k', repeat('x', 513)], 'alice', '1 hour');
SELECT * FROM fence_acquire_all('{all:k}', NULL, '1 hour');
SELECT * FROM fence_acquire_all('{all:k}', '', '1 hour');
SELECT * FROM fence_acquire_all('{all:k}', 'alice', NULL);
SELECT * FROM fence_acquire_all('{all:k}', 'alice', '0');
SELECT * FROM fence_acquire_all('{all:k}', 'alice', '1 hour', NULL);
SELECT * FROM fence_acquire_all('{all:k}', 'alice', '1 hour', '-1 s');
BEGIN READ ONLY;
SELECT * FROM fence_acquire_all('{all:k}', 'alice', '1 hour');
ROLLBACK;
SELECT fence_current('all:k');
\set VERBOSITY terse
-- any array of text, however it is shaped
SELECT status FROM fence_acquire_all('{{all:k,all:l},{all:m,all:k}}', 'alice', '1 hour');
SELECT status FROM fence_acquire_all('[5:6]={all:n,all:o}', 'alice', '1 hour');
SELECT resource FROM all_leases WHERE resource >= 'all:k';

-- many, and bytes that collations would order otherwise
SELECT status FROM fence_acquire_all((SELECT array_agg('all:many:' || n) FROM generate_series(1, 2000) n), 'alice', '1 hour');
SELECT count(*), count(DISTINCT token) FROM lockfence.leases WHERE resource LIKE 'all:many:%';
SELECT status FROM fence_acquire_all(ARRAY['all:x', 'all:X', 'all:é', 'all:x ', E'all:x\t'], 'alice', '1 hour');
SELECT count(*) FROM all_leases WHERE resource ~ '^all:(x|X|é|x |x\t)$';

DROP VIEW all_leases;
