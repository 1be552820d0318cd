-- fence_acquire and fence_acquire_all that wait, in one session.
--
-- Wrong result it would show: an answer before the wait is over or long after
-- it, a lease that counts from the call instead of from the grant, or a lease
-- that decides by now(), which stands still inside a transaction.
-- Mutants: src/fence_take.c and fence_generation.c with
-- GetCurrentTransactionStartTimestamp(); src/fence_wait.c, fence_wait_more()
-- that returns false at once.
\set VERBOSITY terse

-- without a wait the answer comes at once, with one when it is over
SELECT status FROM fence_acquire('wait:a', 'alice', '1 hour');
SELECT clock_timestamp() AS start \gset
SELECT status, held_by, reason, retry_after BETWEEN '59 min' AND '1 hour' AS rest FROM fence_acquire('wait:a', 'bob', '1 min', '0');
SELECT status, held_by, reason FROM fence_acquire('wait:a', 'bob', '1 min', '150 ms');
SELECT clock_timestamp() - :'start' BETWEEN '150 ms' AND '20 s' AS waited;
SELECT clock_timestamp() AS start \gset
SELECT status, resource, reason FROM fence_acquire_all('{wait:b,wait:a}', 'bob', '1 min', '150 ms');
SELECT clock_timestamp() - :'start' BETWEEN '150 ms' AND '20 s' AS waited;

-- granted when the lease expires; the ttl counts from the grant
SELECT token AS old, expires_at AS expires FROM fence_acquire('wait:c', 'alice', '200 ms') \gset
SELECT status, how, token > :old AS higher, valid_for FROM fence_acquire('wait:c', 'bob', '1 min', '1 min');
SELECT acquired_at >= :'expires' AS after_the_end, acquired_at < timestamptz :'expires' + '20 s' AS soon_after,
       expires_at - acquired_at AS runs
FROM lockfence.leases WHERE resource = 'wait:c';
SELECT expires_at AS expires FROM fence_acquire('wait:d', 'alice', '200 ms') \gset
SELECT status, how FROM fence_acquire_all('{wait:e,wait:d}', 'bob', '1 min', '1 min');
SELECT bool_and(acquired_at >= :'expires') AS after_the_end FROM lockfence.leases WHERE resource IN ('wait:d', 'wait:e');

-- also inside a transaction and in a function, where now() stands still
BEGIN;
SELECT status FROM fence_acquire('wait:f', 'alice', '100 ms');
SELECT status, how FROM fence_acquire('wait:f', 'bob', '1 min', '1 min');
SELECT acquired_at > now() + '100 ms' AS by_the_clock, expires_at > now() + '1 min 100 ms' AS counted_from_the_grant
FROM lockfence.leases WHERE resource = 'wait:f';
COMMIT;
DO $$
DECLARE
    first record;
    second record;
BEGIN
    SELECT * INTO first FROM fence_acquire('wait:g', 'alice', '50 ms');
    WHILE (SELECT live FROM fence_status('wait:g')) LOOP
        PERFORM 1;
    END LOOP;
    SELECT * INTO second FROM fence_acquire('wait:g', 'bob', '1 min');
    RAISE NOTICE '% %', second.status, second.how;
    SELECT status INTO second FROM fence_renew('wait:g', first.token, 'alice', '1 min');
    RAISE NOTICE '%', second.status;
END
$$;

-- the holder's own lease on part of several does not go away by waiting
SELECT status, reason FROM fence_acquire_all('{wait:g,wait:h}', 'bob', '1 min', '20 ms');

-- a wait can be ended: statement_timeout; nothing is left behind
SET statement_timeout = '50 ms';
SELECT status FROM fence_acquire('wait:a', 'bob', '1 min', '1 hour');
SELECT status FROM fence_acquire_all('{wait:new,wait:a}', 'bob', '1 min', '1 hour');
RESET statement_timeout;
SELECT fence_current('wait:new');
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'object';

-- arguments
\set VERBOSITY sqlstate
SELECT * FROM fence_acquire('wait:z', 'alice', '1 min', NULL);
SELECT * FROM fence_acquire('wait:z', 'alice', '1 min', '-1 ms');
SELECT * FROM fence_acquire('wait:z', 'alice', '1 min', '10000 years');
SELECT fence_current('wait:z');
