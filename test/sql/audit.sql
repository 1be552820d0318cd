-- fence_audit: each weakness of protected tables appears, and disappears when
-- it is mended as the answer says.
--
-- Mutants that must make this file fail: any of its queries left out.
CREATE SCHEMA audit;
SET search_path = audit, public;
CREATE FUNCTION findings(deep boolean DEFAULT false)
RETURNS TABLE (severity text, target regclass, problem text, remedy text)
LANGUAGE sql AS $$
    SELECT * FROM fence_audit(deep) a
    WHERE a.target IN (SELECT oid FROM pg_class WHERE relnamespace = 'audit'::regnamespace)
       OR a.target IS NULL AND a.problem LIKE '%"audit:%'
    ORDER BY 2, 1, 3
$$;
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';

CREATE TABLE doc (id bigint, res bigint, tok bigint);
SELECT fence_protect('doc', 'audit:{res}', 'tok');
SELECT * FROM findings();

-- firing
ALTER TABLE doc DISABLE TRIGGER zzz_lockfence;
SELECT * FROM findings();
ALTER TABLE doc ENABLE TRIGGER zzz_lockfence;
ALTER TABLE doc DISABLE TRIGGER zzz_lockfence_truncate;
SELECT * FROM findings();
ALTER TABLE doc ENABLE TRIGGER zzz_lockfence_truncate;
ALTER TABLE doc ENABLE REPLICA TRIGGER zzz_lockfence;
SELECT * FROM findings();
-- declared by setting it before fence_protect
ALTER TABLE doc ENABLE ALWAYS TRIGGER zzz_lockfence;
SELECT target, firing FROM lockfence.protected_tables WHERE target = 'doc'::regclass;
SELECT * FROM findings();
SELECT fence_protect('doc', 'audit:{res}', 'tok');
SELECT tgname, tgenabled, encode(tgargs, 'escape') LIKE '%firing=always%' AS declared
FROM pg_trigger WHERE tgrelid = 'doc'::regclass ORDER BY 1;
SELECT * FROM findings();
-- as after a restore with --disable-triggers
ALTER TABLE doc DISABLE TRIGGER ALL;
SELECT * FROM findings();
ALTER TABLE doc ENABLE TRIGGER ALL;
SELECT * FROM findings();
ALTER TABLE doc ENABLE ALWAYS TRIGGER zzz_lockfence;
SELECT * FROM findings();
-- fence_protect goes by what was declared
SELECT fence_protect('doc', 'audit:{res}', 'tok');
SELECT * FROM findings();
ALTER TABLE doc ENABLE TRIGGER ALL;
SELECT fence_protect('doc', 'audit:{res}', 'tok', 'transaction');
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'doc'::regclass ORDER BY 1;
-- and fence_unprotect forgets it
SELECT fence_unprotect('doc'), fence_protect('doc', 'audit:{res}', 'tok');
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'doc'::regclass ORDER BY 1;
SELECT * FROM findings();

-- triggers and columns that do not fit
CREATE TRIGGER zzzz BEFORE INSERT ON doc FOR EACH ROW EXECUTE FUNCTION touch();
SELECT * FROM findings();
DROP TRIGGER zzzz ON doc;
ALTER TABLE doc RENAME tok TO token;
SELECT * FROM findings();
ALTER TABLE doc RENAME token TO tok;
ALTER TABLE doc ALTER res TYPE integer;
SELECT * FROM findings();
ALTER TABLE doc ALTER res TYPE bigint;
ALTER TABLE doc ALTER tok TYPE integer;
SELECT * FROM findings();
ALTER TABLE doc ALTER tok TYPE bigint;
ALTER TABLE doc DROP COLUMN id;
SELECT * FROM findings();
-- also if it only observes
SELECT fence_protect('doc', 'audit:{res}', 'tok', mode => 'observe');
ALTER TABLE doc RENAME res TO other;
SELECT * FROM findings();
ALTER TABLE doc RENAME other TO res;
SELECT fence_protect('doc', 'audit:{res}', 'tok');
SELECT * FROM findings();

-- TRUNCATE
DROP TRIGGER zzz_lockfence_truncate ON doc;
SELECT * FROM findings();
SELECT fence_protect('doc', 'audit:{res}', 'tok');
SELECT * FROM findings();
CREATE TABLE part (res bigint, tok bigint) PARTITION BY RANGE (res);
SELECT fence_protect('part', 'audit:p:{res}', 'tok');
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (1) TO (10);
SELECT target, problem, remedy FROM findings() WHERE severity <> 'info';
SELECT fence_protect('part', 'audit:p:{res}', 'tok');
SELECT * FROM findings();
-- DETACH takes the row guard away, and leaves the other
ALTER TABLE part DETACH PARTITION part_1;
INSERT INTO part_1 VALUES (1, 1);
SELECT * FROM findings() WHERE severity <> 'info';
SELECT fence_unprotect('part_1');
SELECT * FROM findings() WHERE severity <> 'info';
TRUNCATE part_1;
DROP TABLE part, part_1;

-- inheritance
CREATE TABLE child () INHERITS (doc);
SELECT * FROM findings() WHERE severity <> 'info';
ALTER TABLE child NO INHERIT doc;
SELECT * FROM findings() WHERE severity <> 'info';

-- the neighbour with the same key
SELECT * FROM findings();
SELECT fence_protect('child', 'audit:{res}', 'tok');
SELECT * FROM findings();
DROP TABLE child;
CREATE TABLE head (res integer);
SELECT * FROM findings();
DROP TABLE head;

-- templates
CREATE TABLE two (a text, b text, c bigint, d bigint);
SELECT fence_protect('two', 'audit:{a}:{b}');
SELECT * FROM findings();
SELECT fence_protect('two', 'audit:{c}{d}');
SELECT * FROM findings();
SELECT fence_protect('two', 'audit:{{{a}}}:{c}');
SELECT * FROM findings();
CREATE DOMAIN word AS text;
CREATE DOMAIN short_word AS word CHECK (length(VALUE) < 10);
ALTER TABLE two ALTER a TYPE short_word, ALTER b TYPE word;
SELECT fence_protect('two', 'audit:{a}:{b}');
SELECT * FROM findings();
DROP TABLE two;
DROP DOMAIN short_word, word;

-- publications
SET client_min_messages = error;
CREATE PUBLICATION regress_audit FOR TABLE doc;
RESET client_min_messages;
SELECT * FROM findings();
ALTER PUBLICATION regress_audit ADD TABLE lockfence.fence;
SELECT * FROM findings();
DROP PUBLICATION regress_audit;

-- not permanent
BEGIN;
ALTER TABLE lockfence.operations SET UNLOGGED;
SELECT * FROM fence_audit() WHERE target = 'lockfence.operations'::regclass;
ALTER TABLE lockfence.operations SET LOGGED;
ALTER SEQUENCE lockfence.token SET UNLOGGED;
SELECT * FROM fence_audit() WHERE target IN ('lockfence.operations'::regclass, 'lockfence.token'::regclass);
ALTER SEQUENCE lockfence.token SET LOGGED;
SELECT * FROM fence_audit() WHERE target = 'lockfence.token'::regclass;
ROLLBACK;

-- external fences among issued ones
SELECT status FROM fence_acquire('audit:x:1', 'A', '1 hour');
SELECT * FROM findings();
SELECT fence_check('audit:x:2', 5);
SELECT * FROM findings();
SELECT fence_adopt('audit:x:2');
SELECT * FROM findings();

-- nothing but issued ones
BEGIN;
DELETE FROM lockfence.fence WHERE resource NOT LIKE 'audit:%';
DELETE FROM lockfence.prefix;
SELECT * FROM fence_audit() WHERE severity = 'info' AND target IS NULL;
SELECT fence_accept_external('', false);
SELECT * FROM fence_audit() WHERE severity = 'info' AND target IS NULL;
ROLLBACK;

-- rows above the fence
SELECT token FROM fence_acquire('audit:1', 'A', '1 hour') \gset
INSERT INTO doc VALUES (1, :token);
SELECT * FROM findings(true);
BEGIN;
SELECT fence_bypass('doc', 'test');
UPDATE doc SET tok = tok + 1;
INSERT INTO doc VALUES (7, 1);
COMMIT;
SELECT * FROM findings();
SELECT * FROM findings(true);
BEGIN;
SELECT fence_bypass('doc', 'test');
UPDATE doc SET tok = 1;
DELETE FROM doc WHERE res = 7;
COMMIT;
SELECT * FROM findings(true);
-- rows that have no resource
BEGIN;
SELECT fence_bypass('doc', 'test');
INSERT INTO doc VALUES (NULL, 1);
SELECT * FROM findings(true);
ROLLBACK;

-- A monitor may run it, and cannot read the rows.
CREATE ROLE regress_monitor;
SELECT fence_grant('regress_monitor', 'monitor');
GRANT USAGE ON SCHEMA audit TO regress_monitor;
SET ROLE regress_monitor;
SELECT * FROM findings();
SELECT * FROM findings(true);
RESET ROLE;
DROP OWNED BY regress_monitor;
DROP ROLE regress_monitor;

-- What belongs to the owner of a table does not run with the rights of whoever
-- looks at it: neither checks and casts of the columns' types nor policies.
CREATE TABLE ran (by text);
CREATE FUNCTION spy() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN INSERT INTO audit.ran VALUES (current_user); RETURN true; END $$;
CREATE FUNCTION checked(text) RETURNS boolean LANGUAGE sql AS 'SELECT audit.spy()';
CREATE DOMAIN checked_text AS text CHECK (checked(VALUE));
CREATE TYPE mood AS ENUM ('happy');
CREATE FUNCTION mood_json(mood) RETURNS json LANGUAGE sql AS 'SELECT ''"x"''::json FROM audit.spy()';
CREATE CAST (mood AS json) WITH FUNCTION mood_json(mood);
CREATE TYPE number AS ENUM ('one');
CREATE FUNCTION number_bigint(number) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint FROM audit.spy()';
CREATE CAST (number AS bigint) WITH FUNCTION number_bigint(number) AS IMPLICIT;
CREATE TABLE trap (res checked_text, tok bigint, m mood DEFAULT 'happy');
SELECT fence_protect('trap', 'audit:trap:{res}', 'tok');
BEGIN;
SELECT fence_bypass('trap', 'test');
INSERT INTO trap VALUES ('a', 5);
COMMIT;
ALTER TABLE trap ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY spying ON trap USING (spy());
DELETE FROM ran;
SELECT * FROM findings(true) WHERE target = 'trap'::regclass;
CREATE ROLE regress_reader;
SELECT fence_grant('regress_reader', 'monitor');
GRANT USAGE ON SCHEMA audit TO regress_reader;
GRANT SELECT ON trap TO regress_reader;
GRANT INSERT ON ran TO regress_reader;
SET ROLE regress_reader;
SELECT * FROM findings(true) WHERE target = 'trap'::regclass;
RESET ROLE;
ALTER TABLE trap ALTER tok TYPE number USING 'one';
SELECT * FROM findings(true) WHERE target = 'trap'::regclass;
SELECT * FROM ran;
DROP TABLE trap;
DROP OWNED BY regress_reader;
DROP ROLE regress_reader;

-- It does not depend on the caller's search_path, and reads no lookalikes.
SET search_path = '';
CREATE TEMP TABLE pg_trigger (a int);
ALTER TABLE audit.doc DISABLE TRIGGER zzz_lockfence;
SELECT target, problem FROM public.fence_audit() WHERE target = 'audit.doc'::regclass;
DROP TABLE pg_temp.pg_trigger;
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA audit CASCADE;
RESET client_min_messages;
DELETE FROM lockfence.fence WHERE resource LIKE 'audit:%';
