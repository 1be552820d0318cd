-- fence_bypass: one transaction may write one table unguarded.
--
-- Mutants that must make this file fail (src/fence_bypass.c):
--   end_transaction() that keeps the list; end_subtransaction() that does; a
--   commit of a savepoint that takes it back
SET client_min_messages = log;
CREATE TABLE passed (res text, tok bigint) PARTITION BY LIST (res);
CREATE TABLE passed_a PARTITION OF passed FOR VALUES IN ('a');
CREATE TABLE passed_b PARTITION OF passed FOR VALUES IN ('b');
CREATE TABLE other (res text, tok bigint);
SELECT fence_protect('passed', 'bypass:{res}', 'tok'), fence_protect('other', 'bypass:{res}', 'tok');
SELECT fence_check('bypass:a', 5);

BEGIN;
SELECT fence_bypass('passed', 'backfill, ticket 4711');
\set VERBOSITY terse
INSERT INTO passed VALUES ('a', 1), ('b', NULL), ('a', 9);
UPDATE passed SET tok = 2 WHERE tok = 1;
UPDATE passed SET res = 'b' WHERE tok = 9;
DELETE FROM passed WHERE tok IS NULL;
SELECT * FROM passed ORDER BY 1, 2;
-- no other table
SAVEPOINT s;
INSERT INTO other VALUES ('a', 1);
ROLLBACK TO s;
COMMIT;
-- and no later transaction
INSERT INTO passed VALUES ('a', 1);
TRUNCATE passed;
-- only a partition
BEGIN;
SELECT fence_bypass('passed_a', 'correction');
INSERT INTO passed VALUES ('a', 1);
INSERT INTO passed VALUES ('b', 1);
ROLLBACK;
BEGIN;
SELECT fence_bypass('passed', 'truncated by hand');
TRUNCATE passed;
SELECT count(*) FROM passed;
COMMIT;

-- savepoints
BEGIN;
SAVEPOINT s;
SELECT fence_bypass('other', 'taken back');
INSERT INTO other VALUES ('a', 1);
ROLLBACK TO s;
INSERT INTO other VALUES ('a', 1);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SAVEPOINT t;
SELECT fence_bypass('other', 'kept');
RELEASE t;
SAVEPOINT u;
ROLLBACK TO u;
INSERT INTO other VALUES ('a', 1);
RELEASE s;
INSERT INTO other VALUES ('a', 1);
ROLLBACK;
INSERT INTO other VALUES ('a', 1);
BEGIN;
SELECT fence_bypass('other', 'prepared');
INSERT INTO other VALUES ('a', 1);
PREPARE TRANSACTION 'regress_bypass';
INSERT INTO other VALUES ('a', 2);
COMMIT PREPARED 'regress_bypass';
SELECT * FROM other;

-- What was admitted is still checked at commit.
BEGIN;
SELECT fence_check('bypass:a', 6);
SELECT fence_bypass('other', 'no way around the commit check');
INSERT INTO other VALUES ('a', 1);
SELECT fence_override('bypass:a', 7);
COMMIT;

-- input
SELECT fence_bypass(NULL, 'x');
SELECT fence_bypass('other', NULL);
SELECT fence_bypass('other', '');
SELECT fence_bypass('other', repeat('x', 1025));
SELECT fence_bypass(1, 'x');

-- nobody has the right, whatever fence_grant has given
CREATE ROLE regress_operator;
SELECT fence_grant('regress_operator', 'operator');
SET ROLE regress_operator;
SELECT fence_bypass('other', 'x');
RESET ROLE;
DROP OWNED BY regress_operator;
DROP ROLE regress_operator;
DROP TABLE passed, other;
RESET client_min_messages;
\set VERBOSITY default
DELETE FROM lockfence.fence WHERE resource LIKE 'bypass:%';
