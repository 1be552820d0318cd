-- Partitioned tables: direct writes, sub-partitions with other column orders,
-- movement between partitions, attach and detach, TRUNCATE of one partition.
--
-- Mutants that must make this file fail:
--   the token column's number is taken from the parent (src/fence_fit.c)
--   only the target gets a TRUNCATE guard (src/fence_protect.c, create_guards)
--   DELETE is not judged (src/fence_trigger.c): a row can leave its partition

CREATE TABLE parts (id int, res text, tok bigint, v text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts_2 (gone int, v text, tok bigint, res text, id int);
ALTER TABLE parts_2 DROP COLUMN gone;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (20);
CREATE TABLE parts_3 (tok bigint, id int, v text, res text) PARTITION BY LIST (v);
CREATE TABLE parts_3x PARTITION OF parts_3 FOR VALUES IN ('x');
CREATE TABLE parts_3y (v text, gone int, gone2 int, id int, res text, tok bigint);
ALTER TABLE parts_3y DROP COLUMN gone, DROP COLUMN gone2;
ALTER TABLE parts_3 ATTACH PARTITION parts_3y DEFAULT;
ALTER TABLE parts ATTACH PARTITION parts_3 FOR VALUES FROM (20) TO (30);

SELECT fence_protect('parts', 'parts:{res}', 'tok');
SELECT target, resource, token_column, present, mode, firing
FROM lockfence.protected_tables WHERE target::text LIKE 'parts%'
ORDER BY target::text;
SELECT tgrelid::regclass AS target, tgname FROM pg_trigger
WHERE tgrelid::regclass::text LIKE 'parts%' AND tgtype & 1 = 0
ORDER BY tgrelid::regclass::text;

BEGIN;
SELECT fence_check('parts:a', 6);
INSERT INTO parts (id, res, v) VALUES (1, 'a', 'one'), (11, 'a', 'two'), (21, 'a', 'x'), (22, 'a', 'y');
COMMIT;
SELECT tableoid::regclass, id, res, tok, v FROM parts ORDER BY id;

\set VERBOSITY sqlstate
-- Stale and without a token, through the parent and directly.
INSERT INTO parts VALUES (2, 'a', 5, 'stale');
INSERT INTO parts_1 VALUES (2, 'a', 5, 'stale');
INSERT INTO parts VALUES (12, 'a', 5, 'stale');
INSERT INTO parts_2 (id, res, tok, v) VALUES (12, 'a', 5, 'stale');
INSERT INTO parts VALUES (23, 'a', 5, 'x');
INSERT INTO parts_3 (id, res, tok, v) VALUES (23, 'a', 5, 'y');
INSERT INTO parts_3y (id, res, tok, v) VALUES (23, 'a', 5, 'y');
UPDATE parts SET v = 'stale' WHERE id = 1;
UPDATE parts SET v = 'stale', tok = 5 WHERE id = 11;
UPDATE parts_2 SET v = 'stale', tok = 5 WHERE id = 11;
UPDATE parts SET tok = 5 WHERE id = 21;
UPDATE parts SET tok = 5 WHERE id = 22;
UPDATE parts_3y SET v = 'z';
DELETE FROM parts_2;
DELETE FROM parts WHERE id = 22;
-- TRUNCATE of the whole, of a branch, of one partition.
TRUNCATE parts;
TRUNCATE ONLY parts;
TRUNCATE parts_1;
TRUNCATE parts_3;
TRUNCATE parts_3y;
-- Movement: naming the token, not naming it, and with another resource.
UPDATE parts SET id = 12 WHERE id = 1;
UPDATE parts SET id = 12, tok = 5 WHERE id = 1;
UPDATE parts SET id = 12, tok = NULL WHERE id = 1;
UPDATE parts SET id = 12, tok = 6, res = 'b' WHERE id = 1;
\set VERBOSITY default
SELECT tableoid::regclass, id, res, tok, v FROM parts ORDER BY id;

-- The rightful holder: token named, whatever the partition's column order.
UPDATE parts SET v = v || '!', tok = 6 WHERE id IN (1, 11);
UPDATE parts SET id = 12, tok = 6 WHERE id = 1;
UPDATE parts SET v = 'y', tok = 6 WHERE id = 21;
UPDATE parts SET id = 2, v = 'moved', tok = 7 WHERE id = 22;
BEGIN;
SELECT fence_check('parts:a', 7);
UPDATE parts SET id = id + 10 WHERE id IN (2, 12);
DELETE FROM parts WHERE id = 11;
SELECT fence_check('parts:b', 7);
UPDATE parts SET res = 'b', id = 3 WHERE id = 21;
COMMIT;
SELECT tableoid::regclass, id, res, tok, v FROM parts ORDER BY id;

-- MERGE and ON CONFLICT reach partitions as well.
ALTER TABLE parts_1 ADD PRIMARY KEY (id);
\set VERBOSITY sqlstate
MERGE INTO parts p USING (VALUES (3)) s (id) ON p.id = s.id
    WHEN MATCHED THEN UPDATE SET id = 13, tok = 6;
MERGE INTO parts p USING (VALUES (3)) s (id) ON p.id = s.id
    WHEN MATCHED THEN DELETE;
INSERT INTO parts_1 VALUES (3, 'b', 6, 'x') ON CONFLICT (id) DO UPDATE SET v = 'x';
MERGE INTO parts p USING (VALUES (12)) s (id) ON p.id = s.id
    WHEN MATCHED THEN UPDATE SET tok = 6;
MERGE INTO parts p USING (VALUES (22)) s (id) ON p.id = s.id
    WHEN MATCHED THEN UPDATE SET tok = 6;
MERGE INTO parts p USING (VALUES (22)) s (id) ON p.id = s.id
    WHEN MATCHED THEN UPDATE SET v = 'z';
CREATE UNIQUE INDEX ON parts_2 (id);
CREATE UNIQUE INDEX ON parts_3x (id, v);
CREATE UNIQUE INDEX ON parts_3y (id, v);
INSERT INTO parts_2 (id, res, tok) VALUES (12, 'a', 7) ON CONFLICT (id) DO UPDATE SET tok = 6;
INSERT INTO parts_3 (id, res, tok, v) VALUES (22, 'a', 7, 'one!')
    ON CONFLICT DO NOTHING;
ALTER TABLE parts_3 ADD UNIQUE (id, v);
INSERT INTO parts_3 (id, res, tok, v) VALUES (22, 'a', 7, 'one!')
    ON CONFLICT (id, v) DO UPDATE SET tok = 6;
INSERT INTO parts_3 (id, res, tok, v) VALUES (22, 'a', 7, 'one!')
    ON CONFLICT (id, v) DO UPDATE SET tok = 7;
\set VERBOSITY default
MERGE INTO parts p USING (VALUES (3)) s (id) ON p.id = s.id
    WHEN MATCHED THEN UPDATE SET v = 'merged', tok = 7;
SELECT tableoid::regclass, id, res, tok, v FROM parts ORDER BY id;

-- A partition is protected together with its parent only.
SELECT fence_protect('parts_1', 'parts:{res}', 'tok');
SELECT fence_protect('parts_3', 'parts:{res}', 'tok');
SELECT fence_unprotect('parts_3y');

-- A new partition is guarded from its first row; its TRUNCATE guard comes with
-- the next fence_protect.
CREATE TABLE parts_4 PARTITION OF parts FOR VALUES FROM (30) TO (40);
\set VERBOSITY sqlstate
INSERT INTO parts_4 VALUES (31, 'a', 6, 'stale');
INSERT INTO parts_4 VALUES (31, 'a', 7, 'good');
TRUNCATE parts_4;
SELECT fence_protect('parts', 'parts:{res}', 'tok');
TRUNCATE parts_4;
\set VERBOSITY default

-- Detached, a table keeps the TRUNCATE guard only; attached, it is guarded as
-- before, by a trigger at another place in a warm backend.
INSERT INTO parts_4 VALUES (31, 'a', 7, 'good');
ALTER TABLE parts DETACH PARTITION parts_4;
SELECT count(*) FROM lockfence.protected_tables WHERE target = 'parts_4'::regclass;
INSERT INTO parts_4 VALUES (32, 'a', 1, 'unguarded');
\set VERBOSITY sqlstate
TRUNCATE parts_4;
\set VERBOSITY default
ALTER TABLE parts ATTACH PARTITION parts_4 FOR VALUES FROM (30) TO (40);
\set VERBOSITY sqlstate
INSERT INTO parts_4 VALUES (33, 'a', 1, 'stale');
UPDATE parts SET v = 'x' WHERE id = 32;
INSERT INTO parts_4 VALUES (33, 'a', 7, 'good');
ALTER TABLE parts DETACH PARTITION parts_4;
-- A guard of its own stands in the way of attaching.
SELECT fence_protect('parts_4', 'other:{res}', 'tok');
ALTER TABLE parts ATTACH PARTITION parts_4 FOR VALUES FROM (30) TO (40);
SELECT fence_unprotect('parts_4');
TRUNCATE parts_4;
\set VERBOSITY default
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'parts_4'::regclass;
DROP TABLE parts_4;

-- Firing states are kept for each partition.
ALTER TABLE parts_2 ENABLE ALWAYS TRIGGER zzz_lockfence;
ALTER TABLE parts_1 DISABLE TRIGGER zzz_lockfence;
SELECT fence_protect('parts', 'parts:{res}', 'tok');
SELECT target, firing FROM lockfence.protected_tables
WHERE target::text LIKE 'parts%' ORDER BY target::text;
ALTER TABLE parts ENABLE ALWAYS TRIGGER zzz_lockfence;
SELECT fence_protect('parts', 'parts:{res}', 'tok', 'transaction');
SELECT target, present, firing FROM lockfence.protected_tables
WHERE target::text LIKE 'parts%' ORDER BY target::text;

-- Unprotecting takes all guards along.
SELECT fence_unprotect('parts');
SELECT count(*) FROM pg_trigger WHERE tgrelid::regclass::text LIKE 'parts%';

-- What a partition can spoil: a trigger that fires later, a guard of its own,
-- a default, a foreign table, the token in a partition key.
CREATE FUNCTION parts_nothing() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN RETURN NEW; END$$;
CREATE TRIGGER zzzz BEFORE INSERT ON parts_3y
    FOR EACH ROW EXECUTE FUNCTION parts_nothing();
SELECT fence_protect('parts', 'parts:{res}', 'tok');
DROP TRIGGER zzzz ON parts_3y;
CREATE TRIGGER my_guard BEFORE INSERT OR UPDATE OR DELETE ON parts_3y
    FOR EACH ROW EXECUTE FUNCTION fence_trigger('{res}', 'tok');
SELECT fence_protect('parts', 'parts:{res}', 'tok');
DROP TRIGGER my_guard ON parts_3y;
CREATE TRIGGER zzz_lockfence BEFORE INSERT ON parts_3y
    FOR EACH ROW EXECUTE FUNCTION parts_nothing();
SELECT fence_protect('parts', 'parts:{res}', 'tok');
DROP TRIGGER zzz_lockfence ON parts_3y;
ALTER TABLE parts_3y ALTER tok SET DEFAULT 7;
SELECT fence_protect('parts', 'parts:{res}', 'tok');
ALTER TABLE parts_3y ALTER tok DROP DEFAULT;
CREATE FOREIGN DATA WRAPPER parts_fdw;
CREATE SERVER parts_server FOREIGN DATA WRAPPER parts_fdw;
CREATE FOREIGN TABLE parts_foreign PARTITION OF parts FOR VALUES FROM (40) TO (50)
    SERVER parts_server;
SELECT fence_protect('parts', 'parts:{res}', 'tok');
DROP FOREIGN TABLE parts_foreign;
DROP SERVER parts_server;
DROP FOREIGN DATA WRAPPER parts_fdw;
-- A partition's own protection is taken over by the parent's.
SELECT fence_protect('parts_1', 'mine:{res}', 'tok', 'transaction');
SELECT fence_protect('parts', 'parts:{res}', 'tok');
SELECT target, resource, present FROM lockfence.protected_tables
WHERE target::text LIKE 'parts%' ORDER BY target::text;
-- So is that of a branch, with its sub-partitions.
SELECT fence_unprotect('parts');
SELECT fence_protect('parts_3', 'branch:{res}', 'tok', 'transaction');
SELECT target, resource, present FROM lockfence.protected_tables
WHERE target::text LIKE 'parts%' ORDER BY target::text;
SELECT fence_protect('parts', 'parts:{res}', 'tok');
SELECT target, resource, present FROM lockfence.protected_tables
WHERE target::text LIKE 'parts%' ORDER BY target::text;
ALTER TABLE parts DETACH PARTITION parts_3;
SELECT target FROM lockfence.protected_tables
WHERE target::text LIKE 'parts%' ORDER BY target::text;
ALTER TABLE parts ATTACH PARTITION parts_3 FOR VALUES FROM (20) TO (30);
-- Another trigger that was cloned is no guard.
SELECT fence_unprotect('parts');
CREATE TRIGGER cloned BEFORE INSERT ON parts
    FOR EACH ROW EXECUTE FUNCTION parts_nothing();
SELECT fence_protect('parts_1', 'parts:{res}', 'tok');
DROP TRIGGER cloned ON parts;
SELECT fence_protect('parts', 'parts:{res}', 'tok');
-- The trigger appears later, on one partition only.
CREATE TRIGGER zzzz BEFORE INSERT ON parts_3y
    FOR EACH ROW EXECUTE FUNCTION parts_nothing();
INSERT INTO parts VALUES (24, 'a', 7, 'y');
INSERT INTO parts VALUES (24, 'a', 7, 'x');
DROP TRIGGER zzzz ON parts_3y;
INSERT INTO parts VALUES (25, 'a', 7, 'y');

CREATE TABLE parts_by_token (res text, tok bigint, v text) PARTITION BY RANGE (tok);
CREATE TABLE parts_by_token_1 PARTITION OF parts_by_token FOR VALUES FROM (1) TO (9);
SELECT fence_protect('parts_by_token', '{res}', 'tok');
SELECT fence_protect('parts_by_token_1', '{res}', 'tok');
CREATE TABLE parts_by_expr (res text, tok bigint, v text) PARTITION BY RANGE ((tok + 1));
SELECT fence_protect('parts_by_expr', '{res}', 'tok');
-- without its token column it can be protected
SELECT fence_protect('parts_by_token', 'parts:{res}');

-- A default of the partitioned table alone would show a token through it.
-- Mutant: fit_token_column() without ancestor_has_default().
CREATE TABLE parts_default (res text, tok bigint) PARTITION BY LIST (res);
CREATE TABLE parts_default_a PARTITION OF parts_default FOR VALUES IN ('parts:a');
SELECT fence_protect('parts_default', '{res}', 'tok');
ALTER TABLE ONLY parts_default ALTER tok SET DEFAULT 7;
INSERT INTO parts_default (res) VALUES ('parts:a');
ALTER TABLE ONLY parts_default ALTER tok DROP DEFAULT;

-- A stamped token obeys the domain of its column.
-- Mutant: stamp() without domain_check().
CREATE DOMAIN parts_token AS bigint CHECK (VALUE < 100);
CREATE TABLE parts_stamped (res text, tok parts_token);
SELECT fence_protect('parts_stamped', '{res}', 'tok');
BEGIN;
SELECT fence_check('parts:stamped', 200);
INSERT INTO parts_stamped (res) VALUES ('parts:stamped');
ROLLBACK;

DROP TABLE parts_default, parts_stamped;
DROP DOMAIN parts_token;
DROP TABLE parts, parts_by_token, parts_by_expr;
DROP FUNCTION parts_nothing();
DELETE FROM lockfence.fence WHERE resource LIKE 'parts:%';
