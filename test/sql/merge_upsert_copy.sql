-- The many ways to write a row: each is guarded as the plain statement is, and
-- a refused row is an error that undoes its statement, never a skipped row.
--
-- Mutants that must make this file fail (src/fence_trigger.c):
--   a refused row is skipped (NULL is returned) instead of raising
--   the row before is remembered without its token, or without the epoch

CREATE TABLE ways (id int PRIMARY KEY, res text, tok bigint, v text DEFAULT '-');
SELECT fence_protect('ways', 'ways:{res}', 'tok');
INSERT INTO ways VALUES (1, 'a', 5, 'x'), (2, 'b', 5, 'x');
SELECT fence_check('ways:a', 6);
\set VERBOSITY sqlstate

-- A stale row in the middle, or at the end, leaves nothing of its statement.
INSERT INTO ways SELECT n, 'a', CASE n WHEN 12 THEN 5 ELSE 6 END FROM generate_series(11, 13) n;
INSERT INTO ways VALUES (11, 'a', 6), (12, 'a', 6), (13, 'a', NULL), (14, 'b', NULL);
INSERT INTO ways VALUES (11, 'a', 6), (12, 'b', 6), (13, 'a', 5) RETURNING id;
INSERT INTO ways VALUES (11, 'a', 6), (12, 'b', 5), (13, 'b', 4);
SELECT count(*), max(tok) FROM ways;
\set ON_ERROR_ROLLBACK on
BEGIN;
INSERT INTO ways VALUES (11, 'a', 6);
INSERT INTO ways VALUES (12, 'a', 5);
INSERT INTO ways VALUES (12, 'a', 6);
COMMIT;
\set ON_ERROR_ROLLBACK off
SELECT id, res, tok FROM ways ORDER BY id;

-- COPY
COPY ways (id, res, tok) FROM stdin;
21	c	5
22	c	6
23	c	4
\.
SELECT count(*) FROM ways WHERE res = 'c';
SELECT count(*) FROM lockfence.fence WHERE resource = 'ways:c';
COPY ways (id, res, tok) FROM stdin WHERE id <> 22;
21	c	6
22	c	5
23	c	6
\.
COPY ways (id, res) FROM stdin;
24	c
\.
BEGIN;
SELECT fence_check('ways:c', 6);
COPY ways (id, res) FROM stdin;
24	c
25	c
\.
COPY ways FROM stdin (FORMAT csv, NULL '');
26,c,6,csv
27,c,,csv
28,"a",6,csv
\.
COMMIT;
SELECT id, res, tok, v FROM ways WHERE id > 20 ORDER BY id;

-- ON CONFLICT: the INSERT half is judged first.
INSERT INTO ways VALUES (1, 'a', 5, 'u') ON CONFLICT (id) DO UPDATE SET v = excluded.v, tok = excluded.tok;
INSERT INTO ways VALUES (1, 'a', 5, 'u') ON CONFLICT DO NOTHING;
INSERT INTO ways VALUES (1, 'a', 6, 'u') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
-- into a row of another resource
INSERT INTO ways VALUES (2, 'a', 6, 'u') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO ways VALUES (2, 'a', 6, 'u') ON CONFLICT (id) DO UPDATE SET v = excluded.v, res = excluded.res;
INSERT INTO ways VALUES (2, 'a', 6, 'u') ON CONFLICT DO NOTHING;
SELECT * FROM ways WHERE id < 10 ORDER BY id;

-- MERGE
MERGE INTO ways w USING (VALUES (1, 5)) s (id, tok) ON w.id = s.id
    WHEN MATCHED THEN UPDATE SET v = 'm', tok = s.tok;
MERGE INTO ways w USING (VALUES (1, 5)) s (id, tok) ON w.id = s.id
    WHEN MATCHED THEN DELETE;
MERGE INTO ways w USING (VALUES (9, 5)) s (id, tok) ON w.id = s.id
    WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'a', s.tok, 'm');
MERGE INTO ways w USING (VALUES (9, 6), (1, 6)) s (id, tok) ON w.id = s.id
    WHEN MATCHED THEN UPDATE SET v = 'm', tok = s.tok
    WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'a', s.tok, 'm');
BEGIN;
SELECT fence_check('ways:a', 6);
MERGE INTO ways w USING (VALUES (9), (1), (10)) s (id) ON w.id = s.id
    WHEN MATCHED AND s.id = 9 THEN DELETE
    WHEN MATCHED THEN UPDATE SET v = 'merged'
    WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'a', NULL, 'merged');
COMMIT;
SELECT * FROM ways WHERE id < 11 ORDER BY id;

-- CTEs, in both orders of who admits whom
WITH gone AS (DELETE FROM ways WHERE id = 10 RETURNING *)
    INSERT INTO ways SELECT 12, res, tok, v FROM gone;
WITH new AS (INSERT INTO ways VALUES (30, 'a', 5, 'cte') RETURNING *)
    SELECT * FROM new;
WITH upd AS (UPDATE ways SET v = 'cte', tok = 6 WHERE id = 1 RETURNING *)
    SELECT * FROM upd;
BEGIN;
SELECT fence_check('ways:a', 6);
WITH gone AS (DELETE FROM ways WHERE id = 10 RETURNING *)
    INSERT INTO ways SELECT 30, res, tok, 'cte' FROM gone RETURNING *;
COMMIT;

-- An updatable view, with and without the token column
CREATE VIEW ways_view AS SELECT id, res, tok, v FROM ways;
CREATE VIEW ways_bare AS SELECT id, res, v FROM ways;
UPDATE ways_view SET v = 'view', tok = 5 WHERE id = 1;
UPDATE ways_bare SET v = 'view' WHERE id = 1;
INSERT INTO ways_bare VALUES (31, 'a', 'view');
DELETE FROM ways_view WHERE id = 1;
UPDATE ways_view SET v = 'view', tok = 6 WHERE id = 1;
BEGIN;
SELECT fence_check('ways:a', 6);
UPDATE ways_bare SET v = v || '!' WHERE id = 1;
INSERT INTO ways_bare VALUES (31, 'a', 'view');
COMMIT;
SELECT * FROM ways WHERE id IN (1, 31) ORDER BY id;

-- What MERGE learned in 17
CREATE FUNCTION pg_temp.must_fail(statement text, state text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        EXECUTE statement;
    EXCEPTION WHEN OTHERS THEN
        IF SQLSTATE = state THEN
            RETURN;
        END IF;
        RAISE;
    END;
    RAISE 'not refused: %', statement;
END
$$;
DO $$
BEGIN
    IF current_setting('server_version_num')::int < 170000 THEN
        RETURN;
    END IF;
    PERFORM pg_temp.must_fail('MERGE INTO ways w USING (VALUES (1)) s (id) ON w.id = s.id
        WHEN MATCHED THEN UPDATE SET tok = 5 RETURNING w.id', 'LF001');
    PERFORM pg_temp.must_fail('MERGE INTO ways w USING (VALUES (1)) s (id) ON w.id = s.id
        WHEN NOT MATCHED BY SOURCE THEN DELETE', 'LF002');
    PERFORM pg_temp.must_fail('MERGE INTO ways w USING (VALUES (1)) s (id) ON w.id = s.id
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET id = -id', 'LF002');
    PERFORM pg_temp.must_fail('MERGE INTO ways_view w USING (VALUES (1)) s (id) ON w.id = s.id
        WHEN MATCHED THEN UPDATE SET tok = 5', 'LF001');
    PERFORM pg_temp.must_fail('MERGE INTO ways_bare w USING (VALUES (1)) s (id) ON w.id = s.id
        WHEN MATCHED THEN DELETE', 'LF002');
    EXECUTE 'MERGE INTO ways_view w USING (VALUES (1)) s (id) ON w.id = s.id
        WHEN MATCHED THEN UPDATE SET tok = 6';
END
$$;

-- WHERE CURRENT OF
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM ways WHERE id = 1 FOR UPDATE;
FETCH c;
SAVEPOINT s;
UPDATE ways SET v = 'cursor' WHERE CURRENT OF c;
ROLLBACK TO s;
UPDATE ways SET v = 'cursor', tok = 5 WHERE CURRENT OF c;
ROLLBACK TO s;
DELETE FROM ways WHERE CURRENT OF c;
ROLLBACK TO s;
UPDATE ways SET v = 'cursor', tok = 6 WHERE CURRENT OF c;
COMMIT;

-- Prepared, generic and generated statements
PREPARE ways_update (bigint) AS UPDATE ways SET v = 'prepared', tok = $1 WHERE id = 1;
SET plan_cache_mode = force_generic_plan;
EXECUTE ways_update(6);
EXECUTE ways_update(5);
EXECUTE ways_update(NULL);
EXECUTE ways_update(6);
RESET plan_cache_mode;
DEALLOCATE ways_update;
SELECT format('UPDATE ways SET v = %L, tok = %s WHERE id = 1', 'generated ' || t, t)
FROM generate_series(5, 6) t ORDER BY t
\gexec
SELECT * FROM ways WHERE id = 1;

-- A rule and another table's trigger write for somebody else.
CREATE TABLE ways_log (id int);
CREATE FUNCTION ways_write() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN UPDATE ways SET v = 'trigger' WHERE id = NEW.id; RETURN NEW; END$$;
CREATE TRIGGER t BEFORE INSERT ON ways_log FOR EACH ROW EXECUTE FUNCTION ways_write();
INSERT INTO ways_log VALUES (1);
BEGIN;
SELECT fence_check('ways:a', 6);
INSERT INTO ways_log VALUES (1);
COMMIT;

-- A BEFORE trigger that fires earlier changes the row; the last word is judged.
CREATE FUNCTION ways_early() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.v = 'move' THEN NEW.res := 'b'; END IF;
    IF NEW.v = 'forge' THEN NEW.tok := 6; END IF;
    IF NEW.v = 'skip' THEN RETURN NULL; END IF;
    IF NEW.v = 'nested' THEN
        INSERT INTO ways VALUES (NEW.id + 100, 'nested', NEW.tok, 'x');
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER early BEFORE INSERT OR UPDATE ON ways FOR EACH ROW EXECUTE FUNCTION ways_early();
UPDATE ways SET v = 'move', tok = 6 WHERE id = 1;
UPDATE ways SET v = 'forge' WHERE id = 1;	-- does not name the column
INSERT INTO ways VALUES (40, 'a', 5, 'skip');
-- the same guard fires in the middle of its own statement
INSERT INTO ways VALUES (41, 'a', 6, 'x'), (42, 'a', 6, 'nested'), (43, 'a', 6, 'x'), (44, 'nested', 6, 'x');
INSERT INTO ways VALUES (45, 'a', 6, 'x'), (46, 'a', 5, 'nested'), (47, 'a', 6, 'x');
DROP TRIGGER early ON ways;
SELECT * FROM ways WHERE id >= 40 ORDER BY id;

-- Rows of alternating resources and tokens, and the token of one resource is no
-- token of the other.
INSERT INTO ways SELECT n, CASE n % 2 WHEN 0 THEN 'e' ELSE 'o' END, 7 + n % 2
FROM generate_series(200, 209) n;
INSERT INTO ways VALUES (210, 'o', 8), (211, 'e', 8), (212, 'o', 7);
INSERT INTO ways VALUES (210, 'e', 7), (211, 'o', 7);
SELECT resource, token FROM lockfence.fence WHERE resource IN ('ways:e', 'ways:o') ORDER BY 1;
\set VERBOSITY default

DROP VIEW ways_view, ways_bare;
DROP TABLE ways, ways_log;
DROP FUNCTION ways_write();
DROP FUNCTION ways_early();
DELETE FROM lockfence.fence WHERE resource LIKE 'ways:%';
