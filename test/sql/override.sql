-- fence_override: an administrator's way back after a wrong external token.
SELECT fence_check('ov:a', 5);
SELECT fence_check('ov:a', 999999, 'typo');
SELECT fence_check('ov:a', 6);
SELECT fence_override('ov:a', 5);
SELECT token, kind, holder FROM fence_status('ov:a');
SELECT fence_check('ov:a', 6);
SELECT fence_current('ov:a');
-- upwards too, and to the same
SELECT fence_override('ov:a', 10);
SELECT fence_override('ov:a', 10);

-- a transaction that was admitted above fails at its commit
\set VERBOSITY sqlstate
BEGIN;
SELECT fence_check('ov:a', 20);
SELECT fence_override('ov:a', 15);
COMMIT;
SELECT fence_current('ov:a');

-- only external fences that exist
SELECT fence_override('ov:none', 5);
SELECT fence_current('ov:none');
SELECT token FROM fence_acquire('ov:issued', 'h', '1 hour') \gset
SELECT fence_override('ov:issued', :token + 100);
SELECT fence_override('ov:issued', :token);
SELECT fence_current('ov:issued') = :token AS unchanged;

-- bad input
SELECT fence_override(NULL, 5);
SELECT fence_override('', 5);
SELECT fence_override('ov:a', NULL);
SELECT fence_override('ov:a', 0);
SELECT fence_override('ov:a', -5);
SELECT fence_override(repeat('r', 513), 5);
BEGIN READ ONLY;
SELECT fence_override('ov:a', 7);
ROLLBACK;
SELECT fence_current('ov:a');

-- rolled back
BEGIN;
SELECT fence_override('ov:a', 3);
ROLLBACK;
SELECT fence_current('ov:a');

\set VERBOSITY default
SELECT fence_override('ov:none', 5);

-- The refusal names the table whose rows are there, not one that was rolled back.
-- Mutant: fence_admission_record() that never changes "target".
CREATE TABLE ov_gone (tok bigint);
CREATE TABLE ov_there (tok bigint);
SELECT fence_protect('ov_gone', 'ov:a', 'tok'), fence_protect('ov_there', 'ov:a', 'tok');
SELECT fence_override('ov:a', 10);
BEGIN;
SAVEPOINT s;
INSERT INTO ov_gone VALUES (10);
ROLLBACK TO s;
INSERT INTO ov_there VALUES (10);
SELECT fence_override('ov:a', 9);
COMMIT;
DROP TABLE ov_gone, ov_there;
