-- Read-only transactions, and isolation levels with one snapshot, as far as
-- one session can show them.
\set VERBOSITY sqlstate
SELECT fence_check('snap:a', 5);

-- read only: an equal token passes, a raise cannot be stored
BEGIN READ ONLY;
SELECT fence_check('snap:a', 5);
COMMIT;
BEGIN READ ONLY;
SELECT fence_check('snap:a', 4);
ROLLBACK;
BEGIN READ ONLY;
SELECT fence_check('snap:a', 6);
ROLLBACK;
BEGIN READ ONLY;
SELECT fence_check('snap:new', 6);
ROLLBACK;
BEGIN READ ONLY;
SELECT fence_current('snap:a'), token FROM fence_status('snap:a');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT fence_check('snap:a', 5);
COMMIT;
SELECT fence_current('snap:a'), fence_current('snap:new');
-- it was writing before
BEGIN;
SELECT fence_check('snap:a', 7);
SET TRANSACTION READ ONLY;
SELECT fence_check('snap:a', 7);
SELECT fence_check('snap:a', 8);
ROLLBACK;
BEGIN;
SELECT fence_check('snap:a', 7);
SET TRANSACTION READ ONLY;
COMMIT;
SELECT fence_current('snap:a');

-- Every statement, no transaction command around it, in each level.
SET default_transaction_isolation = 'repeatable read';
SELECT fence_check('snap:a', 7);
SELECT fence_check('snap:a', 8);
SELECT fence_check('snap:a', 7);
SET default_transaction_isolation = 'serializable';
SELECT fence_check('snap:a', 8);
SELECT fence_check('snap:a', 9);
SELECT fence_check('snap:a', 8);
SELECT fence_check('snap:b', 1);
RESET default_transaction_isolation;

-- own raises are visible
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) > 0 AS rows FROM pg_class;
SELECT fence_check('snap:c', 5);
SELECT fence_check('snap:c', 5);
SAVEPOINT s;
SELECT fence_check('snap:c', 6);
RELEASE s;
SELECT fence_check('snap:c', 6);
COMMIT;

-- a raise by a number this cluster has not reached came with restored data
INSERT INTO lockfence.fence (resource, token, issued, released, raised_at, raised_by)
VALUES ('snap:restored', 5, false, false, now(), '18446744073709551000'),
       ('snap:old', 5, false, false, now(), '3'),
       ('snap:frozen', 5, false, false, now(), '2'),
       ('snap:zero', 5, false, false, now(), '0');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT fence_check('snap:restored', 5), fence_check('snap:old', 5),
       fence_check('snap:frozen', 5), fence_check('snap:zero', 5);
COMMIT;
