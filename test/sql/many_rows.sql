-- What is remembered of rows holds exactly as long as the admissions do.
\set VERBOSITY sqlstate
CREATE TABLE many_rows (account bigint, part int, token bigint);
SELECT fence_protect('many_rows', 'many:{account}', 'token');

-- Rows that return to earlier accounts, often enough to be remembered.
BEGIN;
INSERT INTO many_rows SELECT a, r, 5 FROM generate_series(1, 5) r, generate_series(-100, 99) a;
SAVEPOINT warm;

-- A token that is not the admitted one is judged, not remembered.
INSERT INTO many_rows VALUES (7, 6, 4);
ROLLBACK TO warm;

-- A higher one raises the fence; the lower one is stale from then on.
INSERT INTO many_rows VALUES (7, 6, 6);
SAVEPOINT raised;
INSERT INTO many_rows VALUES (7, 7, 5);
ROLLBACK TO raised;
INSERT INTO many_rows VALUES (7, 7, NULL) RETURNING token;

-- Rolled back, the token before counts again.
ROLLBACK TO warm;
INSERT INTO many_rows VALUES (7, 6, NULL), (8, 6, 5), (-7, 6, NULL) RETURNING account, token;

-- What a savepoint admitted is taken back with it, however much it was.
SAVEPOINT inner_one;
INSERT INTO many_rows SELECT a, r, 5 FROM generate_series(1, 5) r, generate_series(1000, 1999) a;
ROLLBACK TO inner_one;
INSERT INTO many_rows VALUES (1500, 6, NULL);
ROLLBACK TO inner_one;
INSERT INTO many_rows SELECT a, 7, NULL FROM generate_series(-100, 99) a;

-- A change of the template changes what the numbers mean.
SELECT fence_protect('many_rows', 'other:{account}', 'token');
INSERT INTO many_rows VALUES (7, 8, NULL);
ROLLBACK TO inner_one;
INSERT INTO many_rows VALUES (7, 8, NULL) RETURNING token;
COMMIT;

-- Nothing is remembered after the transaction.
INSERT INTO many_rows VALUES (7, 9, NULL);
SELECT count(*), count(DISTINCT account), min(token), max(token) FROM many_rows;

-- Several columns: each pair of values has its own token, signs included.
CREATE TABLE many_pairs (a smallint, b int, done boolean, token bigint);
SELECT fence_protect('many_pairs', 'pair:{a}:{b}:{done}', 'token');
CREATE TEMP TABLE want AS
    SELECT a, b, done, row_number() OVER () AS token
    FROM unnest(ARRAY[-32768, -2, -1, 0, 1, 2, 255, 256, 32767]) a,
         unnest(ARRAY[-2147483648, -65536, -256, -1, 0, 1, 255, 256, 65535, 65536, 2147483647]) b,
         unnest(ARRAY[false, true]) done;
BEGIN;
INSERT INTO many_pairs SELECT a, b, done, token FROM want, generate_series(1, 3);
INSERT INTO many_pairs SELECT a, b, done, NULL FROM want;
SELECT count(*), count(*) FILTER (WHERE p.token = w.token) AS right_token
FROM many_pairs p JOIN want w USING (a, b, done);
COMMIT;

DROP TABLE many_rows, many_pairs, want;
