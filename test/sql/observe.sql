-- mode = 'observe': violations of every kind pass, change nothing and are
-- logged; what would have been accepted is not mentioned.
--
-- Mutants that must make this file fail (src/fence_trigger.c):
--   observing stamps the token column; an observed fault raises; an observed
--   row stores a new fence
-- (src/fence_observe.c): second_is_full() never true; left_out not set to zero

CREATE TABLE observed (id int PRIMARY KEY, res text, tok bigint, v text);
SELECT fence_protect('observed', 'observe:{res}', 'tok', mode => 'observe');
SELECT fence_check('observe:a', 6), fence_check('observe:b', 6);
SET client_min_messages = log;
SET lockfence.observed_log_rate = -1;

-- accepted
INSERT INTO observed VALUES (1, 'a', 6, 'x');
UPDATE observed SET v = 'y', tok = 6;
-- refused if enforced
INSERT INTO observed VALUES (2, 'a', 5, 'stale');
INSERT INTO observed VALUES (3, 'a', NULL, 'missing');
INSERT INTO observed VALUES (4, 'a', 0, 'zero'), (5, NULL, 6, 'null'), (6, repeat('x', 600), 6, 'long');
UPDATE observed SET v = 'not named' WHERE id = 1;
UPDATE observed SET res = 'b', tok = 6 WHERE id = 1;
DELETE FROM observed WHERE id = 3;
TRUNCATE observed;
-- a new resource is judged, not stored
INSERT INTO observed VALUES (7, 'new', 9, 'external');
-- nor are tokens that rise in one transaction, which enforcing would raise by
BEGIN;
INSERT INTO observed VALUES (17, 'new', 10, 'external');
INSERT INTO observed VALUES (18, 'new', 11, 'higher');
INSERT INTO observed VALUES (19, 'new', 10, 'lower again');
ROLLBACK;
-- an admission serves, but nothing is stamped
BEGIN;
SELECT fence_check('observe:a', 7);
INSERT INTO observed VALUES (8, 'a', NULL, 'admitted'), (9, 'a', 6, 'stale in this transaction');
COMMIT;
RESET client_min_messages;
SELECT * FROM observed ORDER BY id;
SELECT resource, token FROM lockfence.fence WHERE resource LIKE 'observe:%' ORDER BY 1;

-- present = 'transaction'
SELECT fence_protect('observed', 'observe:{res}', 'tok', 'transaction', 'observe');
SET client_min_messages = log;
INSERT INTO observed VALUES (10, 'a', 7, 'missing');
BEGIN;
SELECT fence_check('observe:a', 7);
INSERT INTO observed VALUES (11, 'a', NULL, 'admitted'), (12, 'a', 7, 'admitted');
INSERT INTO observed VALUES (13, 'a', 6, 'other token'), (14, 'a', -3, 'no token');
UPDATE observed SET v = v WHERE id = 10;
COMMIT;
RESET client_min_messages;
SELECT * FROM observed ORDER BY id;

-- A guard that does not fit lets rows pass, and says so once.
ALTER TABLE observed RENAME res TO res2;
SET client_min_messages = log;
INSERT INTO observed VALUES (20, 'a', 1, 'x'), (21, 'a', 1, 'x');
DELETE FROM observed WHERE id = 21;
RESET client_min_messages;
SELECT fence_resource('observed', '{"res": "a"}');

-- Enforced from the next statement on.
ALTER TABLE observed RENAME res2 TO res;
SELECT fence_protect('observed', 'observe:{res}', 'tok');
\set VERBOSITY sqlstate
INSERT INTO observed VALUES (30, 'a', 5, 'stale');
TRUNCATE observed;
\set VERBOSITY default

-- Of many, a session logs so many in a second, and says how many it left out.
SELECT fence_protect('observed', 'observe:{res}', 'tok', mode => 'observe');
\connect -
\set VERBOSITY terse
SET client_min_messages = log;
SET lockfence.observed_log_rate = 2;
INSERT INTO observed SELECT 100 + g, 'a', 5, 'stale' FROM generate_series(1, 50) g;
TRUNCATE observed;
INSERT INTO observed VALUES (1, NULL, 5, 'null'), (2, 'a', 0, 'zero');
SET lockfence.observed_log_rate = -1;
INSERT INTO observed VALUES (3, 'a', 5, 'stale'), (4, 'a', NULL, 'missing');
SET lockfence.observed_log_rate = 0;
INSERT INTO observed VALUES (5, 'a', 5, 'stale'), (6, 'a', NULL, 'missing');
RESET client_min_messages;
RESET lockfence.observed_log_rate;
\set VERBOSITY default

-- Only superusers set that.
CREATE ROLE regress_writer;
SET ROLE regress_writer;
SET lockfence.observed_log_rate = 0;
RESET ROLE;
DROP ROLE regress_writer;

DROP TABLE observed;
DELETE FROM lockfence.fence WHERE resource LIKE 'observe:%';
