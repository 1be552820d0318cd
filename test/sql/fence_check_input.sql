-- Bad input of fence_check: an error for each, never "unguarded".
\set VERBOSITY terse

-- tokens
SELECT fence_check('input:a', NULL);
SELECT fence_check('input:a', 0);
SELECT fence_check('input:a', -1);
SELECT fence_check('input:a', -9223372036854775808);
SELECT fence_check('input:a', '9223372036854775808');
SELECT fence_check('input:a', '18446744073709551615');
SELECT fence_check('input:a', '');
-- none of them was taken for a first token
SELECT fence_current('input:a');
-- and the same when a fence is there
SELECT fence_check('input:a', 5);
SELECT fence_check('input:a', NULL);
SELECT fence_check('input:a', 0);
SELECT fence_check('input:a', -1);
SELECT fence_current('input:a');

-- resources
SELECT fence_check(NULL, 5);
SELECT fence_check('', 5);
SELECT fence_check(repeat('x', 512), 5);
SELECT fence_check(repeat('x', 513), 5);
SELECT fence_check(repeat('x', 513), NULL);
SELECT fence_check(repeat('é', 256), 5);
SELECT fence_check(repeat('é', 257), 5);
SELECT fence_check(repeat('x', 100000), 5);
-- a compressed or external datum is measured by what it holds
CREATE TABLE input_long (r text);
INSERT INTO input_long VALUES (repeat('a', 100000)), (repeat('b', 512)), (repeat('c', 513));
ALTER TABLE input_long ALTER r SET STORAGE EXTERNAL;
INSERT INTO input_long VALUES (repeat('d', 100000));
SELECT fence_check(r, 5) FROM input_long WHERE r LIKE 'a%';
SELECT fence_check(r, 5) FROM input_long WHERE r LIKE 'b%';
SELECT fence_check(r, 5) FROM input_long WHERE r LIKE 'c%';
SELECT fence_check(r, 5) FROM input_long WHERE r LIKE 'd%';
DROP TABLE input_long;

-- the other functions that name a resource
SELECT fence_current(NULL);
SELECT fence_current('');
SELECT fence_current(repeat('x', 513));
SELECT * FROM fence_status(NULL);
SELECT * FROM fence_status('');
SELECT * FROM fence_status(repeat('x', 513));

-- holders
SELECT fence_check('input:h', 5, '');
SELECT fence_check('input:h', 5, repeat('h', 513));
SELECT fence_check('input:h', 5, repeat('h', 512));
SELECT fence_check('input:h', 5, NULL);

-- Numbers that could have been rounded do not reach a bigint by themselves.
\set VERBOSITY sqlstate
SELECT fence_check('input:n', 9223372036854775808);
SELECT fence_check('input:n', 3.0);
SELECT fence_check('input:n', 3::float8);
SELECT fence_check('input:n', 3::numeric);
SELECT fence_check('input:n', '3.0');
SELECT fence_check('input:n', '3'::text);
SELECT fence_check('input:n', '1e3');
SELECT fence_current('input:n');
SELECT fence_check('input:n', 3::smallint), fence_check('input:n', 3::int);

-- messages in full
\set VERBOSITY default
SELECT fence_check('input:a', 0);
SELECT fence_check(repeat('x', 513), 5);
