-- Foreign-key actions write to a protected table like any statement: they need
-- the transaction's admission of each row's resource.
--
-- Mutants that must make this file fail (src/fence_trigger.c):
--   DELETE is not judged; an UPDATE is judged by the new row's resource alone;
--   an UPDATE by a foreign key counts as naming the token column

CREATE TABLE fk_account (id int PRIMARY KEY);
CREATE TABLE fk_batch (id int PRIMARY KEY);
CREATE TABLE fk_line (
    id int PRIMARY KEY,
    account int REFERENCES fk_account ON DELETE CASCADE ON UPDATE CASCADE,
    batch int REFERENCES fk_batch ON DELETE SET NULL ON UPDATE SET DEFAULT,
    tok bigint);
SELECT fence_protect('fk_line', 'fk:{account}', 'tok');
INSERT INTO fk_account VALUES (1), (2), (3);
INSERT INTO fk_batch VALUES (10), (20);
INSERT INTO fk_line VALUES (1, 1, 10, 5), (2, 2, 10, 5), (3, 3, 20, 5);

\set VERBOSITY sqlstate
-- Without an admission, and with that of another resource.
DELETE FROM fk_account WHERE id = 1;
UPDATE fk_account SET id = 11 WHERE id = 1;
DELETE FROM fk_batch WHERE id = 10;
UPDATE fk_batch SET id = 11 WHERE id = 10;
BEGIN;
SELECT fence_check('fk:1', 5);
DELETE FROM fk_account WHERE id = 2;
ROLLBACK;
BEGIN;
SELECT fence_check('fk:1', 5);
DELETE FROM fk_batch WHERE id = 10;	-- reaches a line of account 2 as well
ROLLBACK;
BEGIN;
SELECT fence_check('fk:1', 5);
UPDATE fk_account SET id = 11 WHERE id = 1;	-- moves to a resource not admitted
ROLLBACK;
BEGIN;
SELECT fence_check('fk:11', 5);
UPDATE fk_account SET id = 11 WHERE id = 1;	-- moves from one not admitted
ROLLBACK;
\set VERBOSITY default
SELECT * FROM fk_line ORDER BY id;

-- With the admissions they need. The token column is stamped.
SELECT fence_check('fk:1', 6), fence_check('fk:2', 6);
BEGIN;
SELECT fence_check('fk:1', 6), fence_check('fk:2', 6), fence_check('fk:11', 7);
DELETE FROM fk_batch WHERE id = 10;
UPDATE fk_account SET id = 11 WHERE id = 1;
COMMIT;
SELECT * FROM fk_line ORDER BY id;
BEGIN;
SELECT fence_check('fk:2', 6);
DELETE FROM fk_account WHERE id = 2;
COMMIT;
SELECT * FROM fk_line ORDER BY id;

-- SET NULL of a column that names the resource leaves no resource.
ALTER TABLE fk_line DROP CONSTRAINT fk_line_account_fkey,
    ADD FOREIGN KEY (account) REFERENCES fk_account ON DELETE SET NULL;
\set VERBOSITY sqlstate
BEGIN;
SELECT fence_check('fk:3', 5);
DELETE FROM fk_account WHERE id = 3;
ROLLBACK;
\set VERBOSITY default

-- Deferred actions do not exist, but deferred checks do; they write nothing.
ALTER TABLE fk_line DROP CONSTRAINT fk_line_account_fkey,
    ADD FOREIGN KEY (account) REFERENCES fk_account DEFERRABLE INITIALLY DEFERRED;
BEGIN;
INSERT INTO fk_line VALUES (4, 4, NULL, 5);
INSERT INTO fk_account VALUES (4);
COMMIT;
SELECT * FROM fk_line ORDER BY id;

-- A deferred trigger writes in the commit: its rows are judged, and admissions
-- from before serve.
CREATE FUNCTION fk_deferred() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN UPDATE fk_line SET batch = 20 WHERE account = NEW.id; RETURN NULL; END$$;
CREATE CONSTRAINT TRIGGER fk_later AFTER UPDATE ON fk_account
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION fk_deferred();
\set VERBOSITY sqlstate
BEGIN;
UPDATE fk_account SET id = id WHERE id = 4;
COMMIT;
BEGIN;
SELECT fence_check('fk:4', 5);
UPDATE fk_account SET id = id WHERE id = 4;
COMMIT;
\set VERBOSITY default
SELECT * FROM fk_line ORDER BY id;

DROP TABLE fk_line, fk_account, fk_batch;
DROP FUNCTION fk_deferred();
DELETE FROM lockfence.fence WHERE resource LIKE 'fk:%';
