-- The extension is dropped and created under a backend that has guards cached,
-- in a transaction that is rolled back and in one that is not.
--
-- Mutants that must make this file fail (src/fence_spec.c): no invalidation;
-- a specification is found by the trigger's name.

SET client_min_messages = warning;
CREATE TABLE again (id int, res text, tok bigint);
SELECT fence_protect('again', 'again:{res}', 'tok');
INSERT INTO again VALUES (1, 'a', 6);

BEGIN;
DROP EXTENSION lockfence CASCADE;
INSERT INTO again VALUES (2, 'a', 5);
SAVEPOINT s;
CREATE EXTENSION lockfence;
SELECT fence_protect('again', 'again:{id}', 'tok');
INSERT INTO again VALUES (3, 'a', 5);
SELECT resource, token FROM lockfence.fence ORDER BY resource;
ROLLBACK TO s;
INSERT INTO again VALUES (4, 'a', 5);
CREATE SCHEMA again_functions;
CREATE EXTENSION lockfence SCHEMA again_functions;
SELECT again_functions.fence_protect('again', 'again:{res}');
SAVEPOINT s2;
\set VERBOSITY sqlstate
INSERT INTO again VALUES (5, 'a', 5);
ROLLBACK TO s2;
\set VERBOSITY default
SELECT target, resource, present FROM lockfence.protected_tables;
ROLLBACK;

-- as before
\set VERBOSITY sqlstate
INSERT INTO again VALUES (6, 'a', 5);
\set VERBOSITY default
INSERT INTO again VALUES (6, 'a', 6);
SELECT * FROM again ORDER BY id;

-- created in a transaction of its own that is rolled back, then for good
DROP EXTENSION lockfence CASCADE;
BEGIN;
CREATE EXTENSION lockfence;
SELECT fence_protect('again', 'again:{res}', 'tok');
INSERT INTO again VALUES (7, 'a', 9);
ROLLBACK;
INSERT INTO again VALUES (8, 'a', 1);
CREATE EXTENSION lockfence;
INSERT INTO again VALUES (9, 'a', 1);
SELECT fence_protect('again', 'again:{res}', 'tok');
INSERT INTO again VALUES (10, 'a', 7);
\set VERBOSITY sqlstate
INSERT INTO again VALUES (11, 'a', 6);
\set VERBOSITY default
SELECT * FROM again ORDER BY id;

-- Made anew by a transaction that was admitted by the old one.
SELECT fence_check('again:x', 5);
BEGIN;
SELECT fence_check('again:x', 5);
DROP EXTENSION lockfence CASCADE;
CREATE EXTENSION lockfence;
COMMIT;
SELECT fence_check('again:x', 5);

-- The table is no obstacle to dropping the extension, nor the other way round.
\set VERBOSITY terse
DROP EXTENSION lockfence;
\set VERBOSITY default
DROP EXTENSION lockfence CASCADE;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'again'::regclass;
CREATE EXTENSION lockfence;
DROP TABLE again;
