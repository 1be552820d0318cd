-- Every form of statement that a stale holder can try, in both ways of showing
-- a token: refused, and the rows stay as they are. The same statements by the
-- rightful holder, alone and after fence_check.
--
-- Mutants that must make this file fail (src/fence_trigger.c):
--   an UPDATE's stored token counts as shown (names_token_column always true)
--   DELETE is not judged; the old row's resource of an UPDATE is not judged
--   a NULL token passes; present = 'transaction' takes the row's token as shown
--   TRUNCATE passes

SET client_min_messages = warning;
CREATE TABLE forms_owner (res text PRIMARY KEY);
INSERT INTO forms_owner VALUES ('a'), ('b');

CREATE TABLE forms_column (
    id int PRIMARY KEY,
    res text REFERENCES forms_owner ON DELETE CASCADE,
    tok bigint,
    v text);
CREATE TABLE forms_transaction (LIKE forms_column INCLUDING ALL,
    FOREIGN KEY (res) REFERENCES forms_owner ON DELETE CASCADE);

SELECT fence_protect('forms_column', 'forms:{res}', 'tok');
SELECT fence_protect('forms_transaction', 'forms:{res}', 'tok', 'transaction');
SELECT target, resource, token_column, present, mode, firing
FROM lockfence.protected_tables WHERE target::text LIKE 'forms%' ORDER BY 1;

-- Generation 5 wrote the rows; 6 has taken over both resources since.
BEGIN;
SELECT fence_check('forms:a', 5), fence_check('forms:b', 5);
INSERT INTO forms_column VALUES (1, 'a', 5, 'five'), (2, 'b', 5, 'five');
INSERT INTO forms_transaction VALUES (1, 'a', 5, 'five'), (2, 'b', NULL, 'five');
COMMIT;
SELECT fence_check('forms:a', 6), fence_check('forms:b', 6);

-- Outcome of a statement that is undone in any case.
CREATE FUNCTION pg_temp.outcome(statement text, admit bigint DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF admit IS NOT NULL THEN
        PERFORM fence_check('forms:a', admit);
    END IF;
    EXECUTE statement;
    RAISE SQLSTATE 'ZZ000';
EXCEPTION
    WHEN SQLSTATE 'ZZ000' THEN RETURN 'ok';
    WHEN OTHERS THEN RETURN SQLSTATE;
END
$$;

CREATE TABLE forms (n int, form text, statement text);
INSERT INTO forms VALUES
    (1, 'UPDATE naming the token', 'UPDATE @ SET v = ''x'', tok = $ WHERE id = 1'),
    (2, 'UPDATE not naming it', 'UPDATE @ SET v = ''x'' WHERE id = 1'),
    (3, 'UPDATE, token NULL', 'UPDATE @ SET v = ''x'', tok = NULL WHERE id = 1'),
    (4, 'INSERT', 'INSERT INTO @ VALUES (3, ''a'', $, ''x'')'),
    (5, 'INSERT, token NULL', 'INSERT INTO @ VALUES (3, ''a'', NULL, ''x'')'),
    (6, 'INSERT ON CONFLICT DO UPDATE',
        'INSERT INTO @ VALUES (1, ''a'', $, ''x'') ON CONFLICT (id) DO UPDATE SET v = ''x'''),
    (7, 'INSERT ON CONFLICT DO NOTHING',
        'INSERT INTO @ VALUES (1, ''a'', $, ''x'') ON CONFLICT DO NOTHING'),
    (8, 'MERGE',
        'MERGE INTO @ t USING (VALUES (1)) s (id) ON t.id = s.id
         WHEN MATCHED THEN UPDATE SET v = ''x'', tok = $'),
    (9, 'DELETE', 'DELETE FROM @ WHERE id = 1'),
    (10, 'TRUNCATE', 'TRUNCATE @'),
    (11, 'TRUNCATE CASCADE', 'TRUNCATE forms_owner CASCADE'),
    (12, 'foreign-key cascade', 'DELETE FROM forms_owner WHERE res = ''a'''),
    (13, 'move to another resource', 'UPDATE @ SET res = ''b'', tok = $ WHERE id = 1'),
    (14, 'resource NULL', 'UPDATE @ SET res = NULL, tok = $ WHERE id = 1');

CREATE FUNCTION pg_temp.form(statement text, present text, token bigint)
RETURNS text LANGUAGE sql AS $$
    SELECT replace(replace(statement, '@', 'forms_' || present), '$', token::text)
$$;

-- The cascades reach both tables, so each present is looked at alone.
ALTER TABLE forms_transaction DISABLE TRIGGER USER;
SELECT n, form,
       pg_temp.outcome(pg_temp.form(statement, 'column', 5)) AS stale,
       pg_temp.outcome(pg_temp.form(statement, 'column', 6)) AS holder,
       pg_temp.outcome(pg_temp.form(statement, 'column', 6), 6) AS after_check
FROM forms ORDER BY n;
ALTER TABLE forms_transaction ENABLE TRIGGER USER;

ALTER TABLE forms_column DISABLE TRIGGER USER;
SELECT n, form,
       pg_temp.outcome(pg_temp.form(statement, 'transaction', 5)) AS stale,
       pg_temp.outcome(pg_temp.form(statement, 'transaction', 6)) AS holder,
       pg_temp.outcome(pg_temp.form(statement, 'transaction', 6), 6) AS after_check
FROM forms ORDER BY n;
ALTER TABLE forms_column ENABLE TRIGGER USER;

-- The stale statements once more as transactions of their own.
\set VERBOSITY sqlstate
SELECT pg_temp.form(statement, present, 5)
FROM forms, (VALUES ('column'), ('transaction')) p (present)
ORDER BY n, present
\gexec
\set VERBOSITY default
SELECT * FROM forms_column ORDER BY id;
SELECT * FROM forms_transaction ORDER BY id;
SELECT * FROM forms_owner ORDER BY res;

-- Each row is judged by itself: a stale holder's new rows, and rows that the
-- new holder has not touched yet, are refused as well.
UPDATE forms_column SET v = 'six', tok = 6 WHERE id = 1;
\set VERBOSITY sqlstate
INSERT INTO forms_column VALUES (4, 'a', 5, 'stale');
UPDATE forms_column SET v = 'stale', tok = 5 WHERE id = 2;
\set VERBOSITY default

-- A token is stamped where the admission serves.
BEGIN;
SELECT fence_check('forms:a', 6), fence_check('forms:b', 6);
UPDATE forms_column SET v = v || '!';
INSERT INTO forms_column VALUES (3, 'b', NULL, 'new');
UPDATE forms_transaction SET v = v || '!';
UPDATE forms_transaction SET res = 'b' WHERE id = 1;
INSERT INTO forms_transaction VALUES (3, 'b', NULL, 'new'), (4, 'b', 6, 'new');
COMMIT;
SELECT * FROM forms_column ORDER BY id;
SELECT * FROM forms_transaction ORDER BY id;

-- present = 'transaction': a token of the writer's own must be the admitted
-- one, or in an UPDATE the one that was read.
SELECT fence_check('forms:a', 7), fence_check('forms:b', 7);
BEGIN;
SELECT fence_check('forms:b', 7);
UPDATE forms_transaction SET tok = 6, v = 'written back' WHERE id = 1;
UPDATE forms_transaction SET tok = tok, v = 'written back' WHERE id = 2;
UPDATE forms_transaction SET tok = 7, v = 'admitted' WHERE id = 3;
SELECT * FROM forms_transaction ORDER BY id;
\set VERBOSITY sqlstate
SAVEPOINT s;
UPDATE forms_transaction SET tok = 6 WHERE id = 3;
ROLLBACK TO s;
UPDATE forms_transaction SET tok = 8 WHERE id = 3;
ROLLBACK TO s;
UPDATE forms_transaction SET tok = 0 WHERE id = 3;
ROLLBACK TO s;
INSERT INTO forms_transaction VALUES (5, 'b', 6, 'other token');
ROLLBACK TO s;
INSERT INTO forms_transaction VALUES (5, 'b', -1, 'no token');
ROLLBACK TO s;
\set VERBOSITY default
ROLLBACK;

-- A row is compared with the row before only while the admission lasts.
BEGIN;
SAVEPOINT s;
INSERT INTO forms_column VALUES (6, 'a', 7, 'x');
DELETE FROM forms_column WHERE id = 6;
ROLLBACK TO s;
\set VERBOSITY sqlstate
DELETE FROM forms_column WHERE id = 1;
ROLLBACK;
BEGIN;
INSERT INTO forms_column VALUES (6, 'a', 7, 'x');
COMMIT;
DELETE FROM forms_column WHERE id = 6;
DO $$
BEGIN
    BEGIN
        INSERT INTO forms_column VALUES (7, 'a', 7, 'x');
        RAISE SQLSTATE 'ZZ000';
    EXCEPTION WHEN SQLSTATE 'ZZ000' THEN NULL;
    END;
    DELETE FROM forms_column WHERE id = 6;
END
$$;

BEGIN;
INSERT INTO forms_column VALUES (7, 'a', 7, 'x');
SELECT fence_check('forms:a', 8);
INSERT INTO forms_column VALUES (8, 'a', 7, 'x');
ROLLBACK;
BEGIN;
SELECT fence_check('forms:a', 7);
UPDATE forms_transaction SET v = 'x' WHERE res = 'a';
SELECT fence_check('forms:a', 8);
INSERT INTO forms_transaction VALUES (8, 'a', 7, 'x');
ROLLBACK;

-- Zero, negative and NULL tokens, first and later, never count as no guard.
INSERT INTO forms_column VALUES (8, 'new', 0, 'x');
INSERT INTO forms_column VALUES (8, 'new', -1, 'x');
INSERT INTO forms_column VALUES (8, 'new', NULL, 'x');
BEGIN;
SELECT fence_check('forms:a', 7);
UPDATE forms_column SET tok = 0 WHERE id = 1;
ROLLBACK;
\set VERBOSITY default

DROP TABLE forms, forms_column, forms_transaction, forms_owner;
DELETE FROM lockfence.fence WHERE resource LIKE 'forms:%';
