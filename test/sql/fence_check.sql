-- fence_check: what passes, what is refused, and what the refusal says.

-- the first external token of a resource opens its fence
SELECT fence_check('check:a', 5);
SELECT fence_current('check:a');
-- the equal token passes, a higher one raises
SELECT fence_check('check:a', 5);
SELECT fence_check('check:a', 7);
SELECT fence_current('check:a');
-- a lower one is stale, and stays so
SELECT fence_check('check:a', 6);
SELECT fence_check('check:a', 1);
SELECT fence_current('check:a');

-- holders: unknown on either side passes, two that differ do not
SELECT fence_check('check:b', 5, 'alice');
SELECT fence_check('check:b', 5, 'alice');
SELECT fence_check('check:b', 5);
SELECT fence_check('check:b', 5, 'bob');
SELECT fence_check('check:b', 4, 'alice');
-- the raising call's holder is stored, also if there is none
SELECT fence_check('check:b', 6, 'bob');
SELECT token, kind, holder FROM fence_status('check:b');
SELECT fence_check('check:b', 7);
SELECT token, kind, holder FROM fence_status('check:b');
SELECT fence_check('check:b', 7, 'carol');

-- a conflict is found also when the token was admitted before
BEGIN;
SELECT fence_check('check:c', 5, 'alice');
SELECT fence_check('check:c', 5, 'bob');
ROLLBACK;

-- within one transaction a lower token is stale, a higher one raises
BEGIN;
SELECT fence_check('check:d', 5);
SELECT fence_check('check:d', 9);
SELECT fence_check('check:d', 9);
SAVEPOINT s;
SELECT fence_check('check:d', 5);
ROLLBACK TO s;
COMMIT;
SELECT fence_current('check:d');

-- rolled back means never seen
BEGIN;
SELECT fence_check('check:e', 100);
ROLLBACK;
SELECT fence_current('check:e');
SELECT fence_check('check:e', 1);

-- nothing outlives the transaction: the next client on this connection must
-- show its own token
BEGIN;
SELECT fence_check('check:f', 7);
COMMIT;
SELECT fence_check('check:f', 6);
DISCARD ALL;
SELECT fence_check('check:f', 6);

-- resources never seen
SELECT fence_current('check:never');
SELECT * FROM fence_status('check:never');

-- a token that was issued: only the exact one passes
SELECT count(token) FROM generate_series(1, 5) n, fence_acquire('check:warm:' || n, 'alice', '1 hour');
SELECT token FROM fence_acquire('check:g', 'alice', '1 hour') \gset
SELECT fence_check('check:g', :token);
SELECT fence_check('check:g', :token, 'alice');
\set VERBOSITY sqlstate
SELECT fence_check('check:g', :token, 'bob');
SELECT fence_check('check:g', :token + 1);
SELECT fence_check('check:g', :token - 1);
SELECT fence_check('check:g', 9223372036854775807);
SELECT fence_check('check:g', 1);
\set VERBOSITY default
SELECT fence_current('check:g') = :token AS unchanged;

-- one statement with many resources and an order of its own
SELECT count(fence_check('check:many:' || n, 1 + n)) FROM generate_series(1, 300) n;
BEGIN;
SELECT count(fence_check('check:many:' || n, 1 + n)) FROM generate_series(300, 1, -1) n;
COMMIT;

-- after a release the refusal says so, also to a writer that shows nothing
CREATE TABLE check_released (res text);
SELECT fence_protect('check_released', 'check:{res}');
SELECT fence_release('check:g', NULL, 'alice');
DO $$
DECLARE
    detail text;
BEGIN
    INSERT INTO check_released VALUES ('g');
EXCEPTION WHEN SQLSTATE 'LF002' THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RAISE NOTICE '%', regexp_replace(detail, '\d+', 'N');
END
$$;
DROP TABLE check_released;
