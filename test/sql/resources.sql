-- Resources are bytes: nothing is trimmed, folded, normalized or formatted.
\set VERBOSITY terse
CREATE TEMP TABLE odd (n int, r text);
INSERT INTO odd VALUES
    (1, 'res'), (2, ' res'), (3, 'res '), (4, E'res\t'), (5, E'res\n'),
    (6, 'RES'), (7, 'r%s'), (8, '%n%n'), (9, '100%'), (10, 'r}s{'),
    (11, '{}'), (12, 'r''s'), (13, 'r"s'), (14, E'r\\s'), (15, ' '),
    (16, U&'re\200Bs'), (17, U&'\+01F512'), (18, U&'r\00E9s'),
    (19, U&'re\0301s'), (20, 'r:s:'), (21, 'r::s'), (22, E'r\x01s'),
    (23, '$1'), (24, 'NULL');

-- each has a fence of its own
SELECT bool_and(fence_check(r, 100 + n)) FROM odd;
SELECT bool_and(fence_current(r) = 100 + n) AS own_fence FROM odd;
SELECT count(*) = 24 AS all_stored
FROM lockfence.fence f JOIN odd o ON f.resource = o.r AND f.token = 100 + o.n;

-- and is told as it is
\set VERBOSITY default
SELECT fence_check('r%s', 1, '%n%s');
SELECT fence_check('r"s', 1, 'h"h');
SELECT fence_check(E'res\n', 1);

-- equality is that of bytes even where the database's collation differs
SELECT fence_check('straße', 5), fence_check('strasse', 1);

-- a prefix of another resource, and a key that sorts just beside
SELECT fence_check('rr', 9), fence_check('r', 3), fence_check('rrr', 1);
SELECT fence_current('r'), fence_current('rr'), fence_current('rrr');

-- issued ones too
SELECT bool_and(a.status = 'granted')
FROM odd, fence_acquire('issued' || r, 'h', '1 hour') a;
SELECT count(DISTINCT a.token) AS tokens, count(DISTINCT a.how) AS ways
FROM odd, fence_acquire('issued' || r, 'h', '1 hour') a;
SELECT count(*) FROM odd, fence_acquire('issued' || r, 'other', '1 hour') a
WHERE a.status = 'held' AND a.held_by = 'h';
