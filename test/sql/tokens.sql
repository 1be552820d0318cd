-- Tokens are compared as 64-bit integers, wherever they were minted.
\set VERBOSITY terse

-- 2^53 and its neighbours: a client that rounded is refused
SELECT fence_check('tokens:js', 9007199254740991);
SELECT fence_check('tokens:js', 9007199254740992);
SELECT fence_check('tokens:js', 9007199254740993);
SELECT fence_check('tokens:js', 9007199254740992);
SELECT fence_check('tokens:js', 9007199254740994);
SELECT fence_check('tokens:js', 9007199254740993);
SELECT fence_current('tokens:js');

-- 2^31 and 2^32
SELECT fence_check('tokens:int', 2147483647);
SELECT fence_check('tokens:int', 2147483648);
SELECT fence_check('tokens:int', 2147483647);
SELECT fence_check('tokens:int', 4294967296);
SELECT fence_check('tokens:int', 1);
SELECT fence_check('tokens:int', 4294967297);

-- a ZooKeeper transaction id: epoch above, counter below
SELECT fence_check('tokens:zxid', (2::bigint << 32) | 4294967295);
SELECT fence_check('tokens:zxid', (3::bigint << 32) | 0);
SELECT fence_check('tokens:zxid', (2::bigint << 32) | 7);

-- the end of the range
SELECT fence_check('tokens:top', 9223372036854775806);
SELECT fence_check('tokens:top', 9223372036854775807);
SELECT fence_check('tokens:top', 9223372036854775807);
SELECT fence_check('tokens:top', 9223372036854775806);
SELECT fence_current('tokens:top');
