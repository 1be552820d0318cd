-- fence_adopt: external fences become issued ones.
\set VERBOSITY terse
SELECT last_value < 1000000 AS starts_low FROM lockfence.token;
SELECT fence_check('adopt:a', 1000000, 'etcd');
SELECT fence_adopt('adopt:a');
SELECT token, kind, holder, released, live FROM fence_status('adopt:a');
-- the current token stays good; nothing above it was issued
SELECT fence_check('adopt:a', 1000000);
\set VERBOSITY sqlstate
SELECT fence_check('adopt:a', 1000001);
SELECT fence_check('adopt:a', 999999);
-- from here on tokens lie above the old ones, for all resources
\set VERBOSITY terse
SELECT how, token > 1000000 AS above FROM fence_acquire('adopt:a', 'h', '1 hour');
SELECT token > 1000000 AS above FROM fence_acquire('adopt:new', 'h', '1 hour');
\set VERBOSITY sqlstate
SELECT fence_check('adopt:a', 1000000);

-- twice, or of what is not there
SELECT fence_adopt('adopt:a');
SELECT fence_adopt('adopt:none');
SELECT fence_adopt(NULL);
SELECT fence_adopt('');

-- a low one moves nothing back
SELECT fence_check('adopt:low', 3);
SELECT last_value AS before FROM lockfence.token \gset
SELECT fence_adopt('adopt:low');
SELECT last_value >= :before AS not_back FROM lockfence.token;
SELECT how FROM fence_acquire('adopt:low', 'h', '1 hour');

-- numbers must last: fences below 2^52 only
SELECT fence_check('adopt:limit', 4503599627370496);
SELECT fence_adopt('adopt:limit');
SELECT fence_check('adopt:top', 9223372036854775807);
SELECT fence_adopt('adopt:top');
SELECT token, kind FROM fence_status('adopt:limit');
SELECT last_value < 4503599627370496 AS sequence_untouched FROM lockfence.token;
\set VERBOSITY default
SELECT fence_adopt('adopt:limit');
SELECT fence_adopt('adopt:none');

\set VERBOSITY sqlstate
BEGIN READ ONLY;
SELECT fence_adopt('adopt:limit');
ROLLBACK;

-- rolled back: external still; the sequence stays where it went
BEGIN;
SELECT fence_check('adopt:b', 2000000);
SELECT fence_adopt('adopt:b');
-- in the same transaction the token goes on
SELECT fence_check('adopt:b', 2000000);
ROLLBACK;
SELECT fence_current('adopt:b');
SELECT token > 2000000 AS above FROM fence_acquire('adopt:c', 'h', '1 hour');

-- adopted by the transaction that showed the token
BEGIN;
SELECT fence_check('adopt:d', 3000000);
SELECT fence_adopt('adopt:d');
COMMIT;
BEGIN;
SELECT fence_check('adopt:d', 3000000);
SELECT status, how FROM fence_acquire('adopt:d', 'h', '1 hour');
COMMIT;

-- just below the limit, in a transaction that leaves it behind: another
-- sequence would be left without room, so set it back
BEGIN;
SELECT last_value AS before FROM lockfence.token \gset
SELECT fence_check('adopt:below', 4503599627370495);
SELECT fence_adopt('adopt:below');
SELECT token FROM fence_acquire('adopt:below', 'h', '1 hour');
ROLLBACK;
SELECT setval('lockfence.token', :before) IS NOT NULL AS set_back;
