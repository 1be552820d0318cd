-- Leases in PostgreSQL: acquire, again, held, takeover, renew, release.
\set VERBOSITY terse
CREATE FUNCTION near(interval, interval) RETURNS boolean LANGUAGE sql
    RETURN $1 BETWEEN $2 - interval '20 s' AND $2;
-- waits for the end of a lease by the clock that decides it
CREATE FUNCTION wait_for_expiry(text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WHILE (SELECT live FROM fence_status($1)) LOOP
        PERFORM pg_sleep(0.005);
    END LOOP;
END
$$;

-- new
SELECT status, token > 0 AS token, how, held_by, near(valid_for, '60 s') AS valid_for,
       expires_at > clock_timestamp() AS expires_later, retry_after, reason
FROM fence_acquire('lease:a', 'alice', '60 s');
SELECT token AS a_token FROM fence_status('lease:a') \gset
SELECT resource, token = :a_token AS token, holder, authority, live,
       acquired_at = renewed_at AS not_renewed, near(expires_at - acquired_at, '60 s') AS runs
FROM lockfence.leases WHERE resource = 'lease:a';
SELECT token = :a_token AS token, kind, holder, released, authority, live, near(valid_for, '60 s')
FROM fence_status('lease:a');

-- again: the live holder gets the same token, and its time anew
SELECT status, token = :a_token AS same, how, valid_for > '80 s' AS refreshed
FROM fence_acquire('lease:a', 'alice', '90 s');
SELECT fence_check('lease:a', :a_token);
SELECT acquired_at < renewed_at AS renewed FROM lockfence.leases WHERE resource = 'lease:a';

-- held: nothing is granted or changed
SELECT (xmin, xmax, ctid)::text AS version FROM lockfence.fence WHERE resource = 'lease:a' \gset
SELECT status, token, how, held_by, expires_at, valid_for, near(retry_after, '90 s') AS retry_after, reason
FROM fence_acquire('lease:a', 'bob', '60 s');
SELECT (xmin, xmax, ctid)::text = :'version' AS untouched FROM lockfence.fence WHERE resource = 'lease:a';

-- takeover of an expired lease, with a higher token; the old one is stale
SELECT token AS old FROM fence_acquire('lease:b', 'alice', '20 ms') \gset
SELECT wait_for_expiry('lease:b');
SELECT holder, live, valid_for FROM fence_status('lease:b');
SELECT live FROM lockfence.leases WHERE resource = 'lease:b';
-- an expired lease decides no write: the token is good until somebody raises
SELECT fence_check('lease:b', :old);
SELECT status, how, token > :old AS higher, token AS new FROM fence_acquire('lease:b', 'bob', '60 s') \gset
SELECT :'status' AS status, :'how' AS how, :'higher' AS higher;
SELECT status FROM fence_renew('lease:b', :old, 'alice', '60 s');
SELECT fence_release('lease:b', :old, 'alice');
\set VERBOSITY sqlstate
SELECT fence_check('lease:b', :old, 'alice');
\set VERBOSITY terse
SELECT fence_check('lease:b', :new, 'bob');

-- the same worker name, a second attempt after expiry: a new generation
SELECT token AS old FROM fence_acquire('lease:c', 'worker-3', '20 ms') \gset
SELECT wait_for_expiry('lease:c');
SELECT how, token > :old AS higher FROM fence_acquire('lease:c', 'worker-3', '60 s');
SELECT status FROM fence_renew('lease:c', :old, 'worker-3', '60 s');
SELECT fence_release('lease:c', :old, 'worker-3');
\set VERBOSITY sqlstate
SELECT fence_check('lease:c', :old, 'worker-3');
\set VERBOSITY terse
SELECT holder, live FROM fence_status('lease:c');

-- renew
SELECT token FROM fence_acquire('lease:d', 'alice', '10 s') \gset
SELECT status, expires_at > clock_timestamp() + '50 s' AS later, near(valid_for, '60 s') AS valid
FROM fence_renew('lease:d', :token, 'alice', '60 s');
-- it may shorten, too
SELECT status, valid_for FROM fence_renew('lease:d', :token, 'alice', '30 s');
SELECT near(valid_for, '30 s') FROM fence_status('lease:d');
-- never for another holder or token
SELECT * FROM fence_renew('lease:d', :token, 'bob', '60 s');
SELECT * FROM fence_renew('lease:d', :token + 1, 'alice', '60 s');
-- never inserts
SELECT * FROM fence_renew('lease:none', 1, 'alice', '60 s');
SELECT fence_current('lease:none');
-- never revives
SELECT token FROM fence_acquire('lease:e', 'alice', '20 ms') \gset
SELECT wait_for_expiry('lease:e');
SELECT * FROM fence_renew('lease:e', :token, 'alice', '60 s');
SELECT live FROM fence_status('lease:e');
-- never for an external fence
SELECT fence_check('lease:ext', 5, 'alice');
SELECT * FROM fence_renew('lease:ext', 5, 'alice', '60 s');
SELECT fence_release('lease:ext', 5, 'alice');
SELECT fence_check('lease:ext', 5, 'alice');

-- release, by whom and how often
SELECT token AS t1 FROM fence_acquire('lease:k', 'A', '20 ms') \gset
SELECT wait_for_expiry('lease:k');
SELECT token AS t2 FROM fence_acquire('lease:k', 'B', '60 s') \gset
SELECT (xmin, xmax, ctid)::text AS version FROM lockfence.fence WHERE resource = 'lease:k' \gset
SELECT fence_release('lease:k', :t1, 'A');
SELECT fence_release('lease:k', :t2, 'A');
SELECT fence_release('lease:k', :t1, 'B');
SELECT fence_release('lease:k', :t2 + 1, 'B');
SELECT fence_release('lease:k', NULL, 'A');
SELECT fence_release('lease:none', :t2, 'B');
SELECT (xmin, xmax, ctid)::text = :'version' AS untouched FROM lockfence.fence WHERE resource = 'lease:k';
SELECT status, held_by FROM fence_acquire('lease:k', 'C', '60 s');
SELECT fence_release('lease:k', :t2, 'B');
SELECT fence_release('lease:k', :t2, 'B');
SELECT fence_release('lease:k', NULL, 'B');
-- the generation ended
\set VERBOSITY sqlstate
SELECT fence_check('lease:k', :t2);
\set VERBOSITY terse
SELECT * FROM fence_renew('lease:k', :t2, 'B', '60 s');
SELECT count(*) FROM lockfence.leases WHERE resource = 'lease:k';
SELECT token = :t2 AS fence_stays, released, live, holder FROM fence_status('lease:k');
SELECT status, how, token > :t2 AS higher FROM fence_acquire('lease:k', 'C', '60 s');

-- after an unknown outcome the holder alone is compared
SELECT status FROM fence_acquire('lease:u', 'attempt-1', '60 s');
SELECT fence_release('lease:u', NULL, 'attempt-2');
SELECT fence_release('lease:u', NULL, 'attempt-1');
SELECT fence_release('lease:u', NULL, 'attempt-1', 'postgres');

-- an expired lease that nobody took can still be released: no takeover then
SELECT token FROM fence_acquire('lease:x', 'alice', '20 ms') \gset
SELECT wait_for_expiry('lease:x');
SELECT fence_release('lease:x', :token, 'alice');
SELECT how FROM fence_acquire('lease:x', 'bob', '60 s');

-- strictly rising, one at a time, without ties
DO $$
DECLARE
    last bigint := 0;
    lease record;
BEGIN
    FOR n IN 1..1000 LOOP
        SELECT * INTO lease FROM fence_acquire('lease:loop', 'h' || n, '1 min');
        IF lease.status <> 'granted' OR lease.token <= last THEN
            RAISE 'round %: %', n, lease;
        END IF;
        last := lease.token;
        IF fence_release('lease:loop', lease.token, 'h' || n) <> 'released' THEN
            RAISE 'round %: not released', n;
        END IF;
    END LOOP;
END
$$;

-- refused ones take no number
SELECT last_value AS before FROM lockfence.token \gset
SELECT count(*) FROM generate_series(1, 1000), fence_acquire('lease:a', 'bob', '60 s') WHERE status = 'held';
SELECT count(*) FROM generate_series(1, 100), fence_acquire('lease:a', 'alice', '60 s') WHERE how = 'again';
SELECT last_value = :before AS unchanged FROM lockfence.token;

DROP FUNCTION near, wait_for_expiry;
