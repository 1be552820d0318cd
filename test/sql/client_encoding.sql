-- A refusal keeps its SQLSTATE if the client's encoding cannot represent the
-- names in its message.
--
-- Mutant that must make this file fail: displayable() of src/fence_report.c
-- that returns its argument.
CREATE TABLE "t→" (id int, res text, tok bigint);
SELECT fence_protect('"t→"', 'encoding:{res}', 'tok');
INSERT INTO "t→" VALUES (1, '→', 5), (2, 'ü', 5);
SELECT fence_check('encoding:→', 7, 'h→'), fence_check('encoding:ü', 7, 'holder');
SET client_encoding = 'LATIN1';
\set VERBOSITY sqlstate
UPDATE U&"t\2192" SET tok = 5 WHERE id = 1;
UPDATE U&"t\2192" SET tok = 5 WHERE id = 2;
TRUNCATE U&"t\2192";
SELECT fence_check('encoding:' || U&'\2192', 5);
SELECT fence_check('encoding:' || U&'\2192', 7, 'other');
BEGIN;
SELECT fence_check('encoding:' || U&'\00fc' , 7);
ROLLBACK;
\set VERBOSITY default
SELECT fence_check('encoding:' || U&'\2192', 5);
SET client_encoding = 'UTF8';
SELECT fence_check('encoding:→', 5);
DROP TABLE "t→";
DELETE FROM lockfence.fence WHERE resource LIKE 'encoding:%';
