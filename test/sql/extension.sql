-- Creating, dropping and placing the extension, under backends that are warm.
\set VERBOSITY sqlstate
SET client_min_messages = warning;
SELECT current_database() AS first_db \gset
CREATE DATABASE regress_lockfence_ext TEMPLATE template0;
\c regress_lockfence_ext
SET client_min_messages = warning;

-- without the extension there is nothing; then a rolled back creation
SELECT fence_check('ext:a', 5);
BEGIN;
CREATE EXTENSION lockfence;
SELECT fence_check('ext:a', 5);
SELECT status FROM fence_acquire('ext:b', 'h', '1 hour');
ROLLBACK;
SELECT fence_check('ext:a', 5);
SELECT count(*) FROM pg_namespace WHERE nspname = 'lockfence';

-- created, dropped and created again in one backend: nothing is remembered
CREATE EXTENSION lockfence;
SELECT fence_check('ext:a', 9);
SELECT status FROM fence_acquire('ext:b', 'h', '1 hour');
DROP EXTENSION lockfence;
SELECT fence_check('ext:a', 9);
CREATE EXTENSION lockfence;
SELECT fence_current('ext:a');
SELECT fence_check('ext:a', 1);
SELECT status, token FROM fence_acquire('ext:b', 'h', '1 hour');

-- a drop that is rolled back
BEGIN;
DROP EXTENSION lockfence;
SAVEPOINT s;
SELECT fence_check('ext:a', 1);
ROLLBACK TO s;
ROLLBACK;
SELECT fence_check('ext:a', 0);
SELECT fence_check('ext:a', 1);

-- dropped in the transaction that was admitted: its commit cannot be judged
BEGIN;
SELECT fence_check('ext:a', 1);
DROP EXTENSION lockfence;
COMMIT;
SELECT fence_check('ext:a', 1);

-- dropped and created again in one transaction
BEGIN;
SELECT fence_check('ext:a', 2);
DROP EXTENSION lockfence;
CREATE EXTENSION lockfence;
SELECT fence_check('ext:a', 1);
ROLLBACK;
SELECT fence_current('ext:a');

-- tables move and come back: found by name, wherever their storage is
VACUUM FULL lockfence.fence;
SELECT fence_check('ext:a', 3);
REINDEX TABLE lockfence.fence;
SELECT fence_check('ext:a', 3);
CLUSTER lockfence.fence USING fence_pkey;
SELECT fence_check('ext:a', 2);
SELECT fence_check('ext:a', 4);
ANALYZE lockfence.fence;
VACUUM (FREEZE) lockfence.fence;
SELECT fence_check('ext:a', 4);
SELECT fence_check('ext:a', 3);

-- a schema that was renamed is missed, clearly
ALTER SCHEMA lockfence RENAME TO elsewhere;
SELECT fence_check('ext:a', 4);
ALTER SCHEMA elsewhere RENAME TO lockfence;
SELECT fence_check('ext:a', 4);
DROP EXTENSION lockfence;
SELECT count(*) FROM pg_namespace WHERE nspname = 'lockfence';

-- in a schema of another name, not in the search path, with a name to quote
CREATE SCHEMA "Fence Tools";
CREATE EXTENSION lockfence SCHEMA "Fence Tools";
SELECT "Fence Tools".fence_check('ext:a', 5);
SELECT status FROM "Fence Tools".fence_acquire('ext:b', 'h', '1 hour');
SELECT "Fence Tools".fence_adopt('ext:a');
SELECT count(*) FROM lockfence.leases;
SELECT count(*) FROM lockfence.protected_tables;
CREATE ROLE regress_lockfence_ext;
SELECT "Fence Tools".fence_grant('regress_lockfence_ext', 'operator');
SELECT "Fence Tools".fence_grant('regress_lockfence_ext');
SET ROLE regress_lockfence_ext;
SELECT "Fence Tools".fence_check('ext:c', 5);
SELECT count(*) FROM lockfence.leases;
RESET ROLE;
DROP OWNED BY regress_lockfence_ext;
DROP ROLE regress_lockfence_ext;
DROP EXTENSION lockfence;
DROP SCHEMA "Fence Tools";

-- in its own schema
CREATE SCHEMA lockfence;
CREATE EXTENSION lockfence SCHEMA lockfence;
SELECT lockfence.fence_check('ext:a', 5);
SELECT status FROM lockfence.fence_acquire('ext:b', 'h', '1 hour');
SELECT count(*) FROM lockfence.leases;
SELECT count(*) FROM lockfence.protected_tables;
DROP EXTENSION lockfence;
SELECT count(*) FROM pg_namespace WHERE nspname = 'lockfence';
DROP SCHEMA lockfence;

-- never in a schema lockfence that was there before, under another name
CREATE SCHEMA lockfence;
CREATE EXTENSION lockfence;
CREATE TABLE lockfence.fence (mine int);
CREATE EXTENSION lockfence SCHEMA lockfence;
DROP SCHEMA lockfence CASCADE;
-- nor in one of somebody else
CREATE ROLE regress_lockfence_squatter;
CREATE SCHEMA lockfence AUTHORIZATION regress_lockfence_squatter;
CREATE EXTENSION lockfence SCHEMA lockfence;
CREATE EXTENSION lockfence;
DROP SCHEMA lockfence;
DROP ROLE regress_lockfence_squatter;

-- it cannot be moved, only made by a superuser, and only once
CREATE EXTENSION lockfence;
CREATE SCHEMA other;
ALTER EXTENSION lockfence SET SCHEMA other;
CREATE EXTENSION lockfence;
DROP EXTENSION lockfence;
CREATE ROLE regress_lockfence_user;
GRANT CREATE ON DATABASE regress_lockfence_ext TO regress_lockfence_user;
GRANT CREATE ON SCHEMA public TO regress_lockfence_user;
SET ROLE regress_lockfence_user;
CREATE EXTENSION lockfence;
RESET ROLE;
DROP OWNED BY regress_lockfence_user;
DROP ROLE regress_lockfence_user;

\c :first_db
DROP DATABASE regress_lockfence_ext;
