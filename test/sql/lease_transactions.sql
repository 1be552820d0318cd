-- Lease calls inside transactions of every kind.
\set VERBOSITY terse
CREATE TABLE lt_rows (n serial, v text);

-- in a transaction block: the grant counts with the commit
BEGIN;
SELECT status, token FROM fence_acquire('lt:a', 'alice', '1 hour') \gset
INSERT INTO lt_rows (v) VALUES ('a');
-- it admitted this transaction
SELECT fence_check('lt:a', :token, 'alice');
-- again, inside the same transaction
SELECT status, how, token = :token AS same FROM fence_acquire('lt:a', 'alice', '1 hour');
SELECT status FROM fence_renew('lt:a', :token, 'alice', '1 hour');
-- another holder is told so even by the transaction that granted
SELECT status, held_by FROM fence_acquire('lt:a', 'bob', '1 hour');
COMMIT;
SELECT token = :token AS token, live FROM fence_status('lt:a');

-- rolled back: no lease, and the next token is higher
BEGIN;
SELECT token AS undone FROM fence_acquire('lt:b', 'alice', '1 hour') \gset
ROLLBACK;
SELECT fence_current('lt:b');
SELECT how, token > :undone AS higher FROM fence_acquire('lt:b', 'bob', '1 hour');

-- acquire, write, release in one transaction: own writes pass
BEGIN;
SELECT token FROM fence_acquire('lt:c', 'alice', '1 hour') \gset
SELECT fence_release('lt:c', :token, 'alice');
SELECT fence_check('lt:c', :token, 'alice');
INSERT INTO lt_rows (v) VALUES ('c');
COMMIT;
\set VERBOSITY sqlstate
SELECT fence_check('lt:c', :token);
\set VERBOSITY terse

-- a release in the transaction that shows the token: the same
SELECT token FROM fence_acquire('lt:d', 'alice', '1 hour') \gset
BEGIN;
SELECT fence_check('lt:d', :token);
INSERT INTO lt_rows (v) VALUES ('d');
SELECT fence_release('lt:d', :token, 'alice');
INSERT INTO lt_rows (v) VALUES ('d');
COMMIT;
SELECT released FROM fence_status('lt:d');

-- release and acquire again in one transaction: two generations, in order
SELECT token FROM fence_acquire('lt:e', 'alice', '1 hour') \gset
BEGIN;
SELECT fence_check('lt:e', :token);
SELECT fence_release('lt:e', :token, 'alice');
SELECT how, token > :token AS higher FROM fence_acquire('lt:e', 'alice', '1 hour');
COMMIT;
SELECT live FROM fence_status('lt:e');
-- a lower one after it in the same transaction is stale
BEGIN;
SELECT token FROM fence_status('lt:e') \gset
SELECT fence_check('lt:e', :token);
SELECT fence_release('lt:e', :token, 'alice');
SELECT count(*) FROM fence_acquire('lt:e', 'alice', '1 hour');
\set VERBOSITY sqlstate
SELECT fence_check('lt:e', :token);
\set VERBOSITY terse
ROLLBACK;

-- several resources
BEGIN;
SELECT count(*) FROM generate_series(1, 50) n, fence_acquire('lt:many:' || n, 'alice', '1 hour') a
WHERE a.status = 'granted';
COMMIT;
SELECT count(*), count(DISTINCT token) FROM lockfence.leases WHERE resource LIKE 'lt:many:%';

-- in a function
CREATE FUNCTION lt_take(r text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    lease record;
BEGIN
    SELECT * INTO lease FROM fence_acquire(r, 'function', '1 hour');
    INSERT INTO lt_rows (v) VALUES (r);
    RETURN lease.status || ' ' || coalesce(lease.how, '-');
END
$$;
SELECT lt_take('lt:f');
SELECT lt_take('lt:f');
-- a function called for many rows, and its OUT parameters expanded
SELECT (fence_acquire('lt:expand', 'alice', '1 hour')).status;

-- in a block with EXCEPTION that is rolled back
DO $$
DECLARE
    undone bigint;
    kept bigint;
BEGIN
    BEGIN
        SELECT token INTO undone FROM fence_acquire('lt:g', 'alice', '1 hour');
        RAISE EXCEPTION 'undo';
    EXCEPTION WHEN raise_exception THEN
        RAISE NOTICE 'fence: %', fence_current('lt:g');
    END;
    SELECT token INTO kept FROM fence_acquire('lt:g', 'bob', '1 hour');
    RAISE NOTICE 'higher: %', kept > undone;
END
$$;
SELECT holder, live FROM fence_status('lt:g');

-- in a procedure that commits
CREATE PROCEDURE lt_work() LANGUAGE plpgsql AS $$
DECLARE
    t bigint;
BEGIN
    SELECT token INTO t FROM fence_acquire('lt:h', 'alice', '1 hour');
    COMMIT;
    PERFORM fence_check('lt:h', t);
    INSERT INTO lt_rows (v) VALUES ('h');
    COMMIT;
    PERFORM fence_release('lt:h', t, 'alice');
END
$$;
CALL lt_work();
SELECT released FROM fence_status('lt:h');

-- REPEATABLE READ and SERIALIZABLE: its own raise is no reason to start anew
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM lt_rows;
SELECT status, token FROM fence_acquire('lt:i', 'alice', '1 hour') \gset
SELECT fence_check('lt:i', :token);
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM lt_rows;
SELECT status, token FROM fence_acquire('lt:j', 'alice', '1 hour') \gset
SELECT fence_check('lt:j', :token);
SELECT status FROM fence_renew('lt:j', :token, 'alice', '1 hour');
SELECT fence_release('lt:j', :token, 'alice');
COMMIT;
SELECT released FROM fence_status('lt:j');

-- read only: nothing is granted, renewed or released
SELECT token FROM fence_acquire('lt:ro', 'alice', '1 hour') \gset
\set VERBOSITY sqlstate
BEGIN READ ONLY;
SELECT status FROM fence_acquire('lt:ro', 'alice', '1 hour');
ROLLBACK;
BEGIN READ ONLY;
SELECT status FROM fence_acquire('lt:ro:new', 'alice', '1 hour');
ROLLBACK;
BEGIN READ ONLY;
SELECT status FROM fence_renew('lt:ro', :token, 'alice', '1 hour');
ROLLBACK;
BEGIN READ ONLY;
SELECT fence_release('lt:ro', :token, 'alice');
ROLLBACK;
BEGIN READ ONLY;
SELECT fence_issue('lt:ro', 'alice');
ROLLBACK;
\set VERBOSITY terse
SELECT token = :token AS token, live FROM fence_status('lt:ro');

-- The transaction's clock stands still; the lease's does not.
BEGIN;
SELECT count(now()) AS clock_stopped;
SELECT token FROM fence_acquire('lt:clock', 'alice', '30 ms') \gset
SELECT pg_sleep(0.05);
SELECT live FROM fence_status('lt:clock');
SELECT status FROM fence_renew('lt:clock', :token, 'alice', '1 hour');
-- expired by the clock, although now() lies before its end
SELECT how FROM fence_acquire('lt:clock', 'bob', '1 hour');
COMMIT;
BEGIN;
SELECT pg_sleep(0.05);
SELECT status FROM fence_acquire('lt:clock2', 'alice', '60 s');
SELECT expires_at - acquired_at AS runs, acquired_at - now() >= '50 ms' AS from_the_grant
FROM lockfence.leases WHERE resource = 'lt:clock2';
COMMIT;

-- an acquire commits with synchronous_commit on; the session's setting is its own
SET synchronous_commit = off;
BEGIN;
SELECT status FROM fence_acquire('lt:sync', 'alice', '1 hour');
SHOW synchronous_commit;
COMMIT;
SHOW synchronous_commit;
BEGIN;
SET LOCAL synchronous_commit = local;
SELECT fence_issue('lt:sync2', 'alice') > 0 AS issued;
SHOW synchronous_commit;
COMMIT;
RESET synchronous_commit;

DROP TABLE lt_rows;
DROP FUNCTION lt_take;
DROP PROCEDURE lt_work;
