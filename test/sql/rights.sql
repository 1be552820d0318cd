-- Who may do what. Workers have EXECUTE and no right on schema lockfence.
\set VERBOSITY sqlstate
SET client_min_messages = warning;
CREATE ROLE regress_lockfence_worker;
CREATE ROLE regress_lockfence_monitor;
CREATE ROLE regress_lockfence_operator;
CREATE ROLE regress_lockfence_plain;
CREATE ROLE "regress_lockfence ""odd""";
RESET client_min_messages;

-- nobody can do anything by default
SET ROLE regress_lockfence_plain;
SELECT fence_check('rights:a', 5);
SELECT fence_current('rights:a');
SELECT * FROM fence_status('rights:a');
SELECT fence_acquire('rights:a', 'h', '1 hour');
SELECT fence_renew('rights:a', 1, 'h', '1 hour');
SELECT fence_release('rights:a', 1, 'h');
SELECT fence_issue('rights:a', 'h');
SELECT fence_override('rights:a', 5);
SELECT fence_adopt('rights:a');
SELECT fence_accept_external('', false);
SELECT fence_grant('regress_lockfence_plain');
SELECT * FROM lockfence.fence;
SELECT * FROM lockfence.leases;
SELECT * FROM lockfence.protected_tables;
SELECT nextval('lockfence.token');
RESET ROLE;

SELECT fence_grant('regress_lockfence_worker');
SELECT fence_grant('regress_lockfence_monitor', 'monitor');
SELECT fence_grant('regress_lockfence_operator', 'operator');
SELECT fence_grant('"regress_lockfence ""odd"""', 'worker');
-- again does nothing
SELECT fence_grant('regress_lockfence_worker', 'worker');

-- a worker: the calls it makes, and no look at anything
SET ROLE regress_lockfence_worker;
SELECT fence_check('rights:a', 5);
SELECT status FROM fence_acquire('rights:b', 'h', '1 hour');
SELECT status FROM fence_acquire('rights:c', 'h', '1 hour');
SELECT count(fence_issue('rights:d', 'h'));
SELECT fence_release('rights:c', NULL, 'h');
SELECT status FROM fence_renew('rights:b', 1, 'h', '1 hour');
BEGIN;
SELECT fence_check('rights:a', 6);
SAVEPOINT s;
SELECT fence_check('rights:a', 5);
ROLLBACK TO s;
COMMIT;
SELECT fence_current('rights:a');
SELECT * FROM fence_status('rights:a');
SELECT fence_override('rights:a', 5);
SELECT fence_adopt('rights:a');
SELECT fence_accept_external('', false);
SELECT fence_grant('regress_lockfence_plain');
SELECT * FROM lockfence.fence;
SELECT * FROM lockfence.leases;
SELECT nextval('lockfence.token');
RESET ROLE;
SELECT has_schema_privilege('regress_lockfence_worker', 'lockfence', 'USAGE') AS worker_uses_schema;

-- a monitor looks
SET ROLE regress_lockfence_monitor;
SELECT fence_current('rights:a');
SELECT token, kind FROM fence_status('rights:a');
SELECT count(*) > 0 AS leases FROM lockfence.leases;
SELECT count(*) >= 0 AS tables FROM lockfence.protected_tables;
SELECT fence_check('rights:a', 7);
SELECT fence_override('rights:a', 5);
SELECT * FROM lockfence.fence;
SELECT * FROM lockfence.prefix;
RESET ROLE;

-- an operator looks and mends
SET ROLE regress_lockfence_operator;
SELECT fence_current('rights:a');
SET client_min_messages = error;
SELECT fence_override('rights:a', 5);
RESET client_min_messages;
SELECT fence_adopt('rights:a');
SELECT fence_accept_external('rights:strict:', false);
SELECT fence_check('rights:a', 7);
SELECT fence_grant('regress_lockfence_plain');
UPDATE lockfence.fence SET token = 1;
RESET ROLE;
SELECT kind FROM fence_status('rights:a');

-- an adopted token is minted for a worker, who has no right on the sequence
SET ROLE regress_lockfence_worker;
SELECT status FROM fence_acquire('rights:a', 'h', '1 hour');
SELECT fence_check('rights:strict:x', 5);
RESET ROLE;

-- plain GRANT and REVOKE serve as well
GRANT EXECUTE ON FUNCTION fence_check TO regress_lockfence_plain;
SET ROLE regress_lockfence_plain;
SELECT fence_check('rights:plain', 5);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION fence_check FROM regress_lockfence_plain;

-- row security on the tables changes nothing
SELECT token FROM fence_acquire('rights:rls', 'h', '1 hour') \gset
ALTER TABLE lockfence.fence ENABLE ROW LEVEL SECURITY;
ALTER TABLE lockfence.fence FORCE ROW LEVEL SECURITY;
SET ROLE regress_lockfence_worker;
SELECT fence_check('rights:rls', :token);
SELECT fence_check('rights:rls', :token + 1000);
SELECT status FROM fence_acquire('rights:rls', 'other', '1 hour');
SELECT status FROM fence_acquire('rights:rls2', 'h', '1 hour');
RESET ROLE;
ALTER TABLE lockfence.fence NO FORCE ROW LEVEL SECURITY;
ALTER TABLE lockfence.fence DISABLE ROW LEVEL SECURITY;

-- a function with its owner's rights hands out what it does, no more
CREATE FUNCTION rights_take(r text) RETURNS text LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp
    AS 'SELECT status FROM fence_acquire($1, ''definer'', ''1 hour'')';
SET ROLE regress_lockfence_plain;
SELECT rights_take('rights:definer');
SELECT fence_check('rights:definer', 1);
RESET ROLE;
DROP FUNCTION rights_take;

-- Through a table of one's own one can show a token, but raise no fence, since
-- that needs the right to fence_check for the writer or the table's owner.
-- Mutants: raise_external() without fence_right_to_raise(); refusal_detail() that
-- does not look at "withheld".
SELECT fence_check('rights:raise', 5);
CREATE TABLE rights_own (tok bigint);
ALTER TABLE rights_own OWNER TO regress_lockfence_plain;
GRANT INSERT ON rights_own TO regress_lockfence_worker;
SET ROLE regress_lockfence_plain;
SELECT fence_protect('rights_own', 'rights:raise', 'tok');
INSERT INTO rights_own VALUES (5);
INSERT INTO rights_own VALUES (6);
-- nor is the fence shown, or its holder, in a refusal
\set VERBOSITY default
INSERT INTO rights_own VALUES (4);
INSERT INTO rights_own VALUES (NULL);
\set VERBOSITY sqlstate
CREATE TEMPORARY TABLE rights_temp (tok bigint);
CREATE TRIGGER zzz_lockfence BEFORE INSERT OR UPDATE OR DELETE ON rights_temp
    FOR EACH ROW EXECUTE FUNCTION fence_trigger('rights:raise', 'tok');
INSERT INTO rights_temp VALUES (5);
SET ROLE regress_lockfence_worker;
INSERT INTO rights_own VALUES (6);
\set VERBOSITY default
INSERT INTO rights_own VALUES (4);
\set VERBOSITY sqlstate
RESET ROLE;
SELECT fence_current('rights:raise');
DROP TABLE rights_own, rights_temp;

-- bad input
SELECT fence_grant('regress_lockfence_worker', 'superuser');
SELECT fence_grant('regress_lockfence_worker', NULL);
SELECT fence_grant(NULL);
SELECT fence_grant('regress_no_such_role');
\set VERBOSITY default
SELECT fence_grant('regress_lockfence_worker', 'Worker');
SELECT fence_grant('regress_lockfence_worker', NULL);

SELECT fence_accept_external('rights:strict:', true);
DROP OWNED BY regress_lockfence_worker, regress_lockfence_monitor,
    regress_lockfence_operator, regress_lockfence_plain, "regress_lockfence ""odd""";
DROP ROLE regress_lockfence_worker, regress_lockfence_monitor,
    regress_lockfence_operator, regress_lockfence_plain, "regress_lockfence ""odd""";
