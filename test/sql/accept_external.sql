-- fence_accept_external: which resources may start with an external token.
\set VERBOSITY sqlstate
SELECT fence_check('ae:a', 5);

-- strict: only issued tokens pass, a misspelt key opens nothing
SELECT fence_accept_external('', false);
SELECT fence_check('ae:b', 5);
SELECT fence_current('ae:b');
SELECT status FROM fence_acquire('ae:b', 'h', '1 hour');
\set VERBOSITY default
SELECT fence_check('ae:B', 5);
\set VERBOSITY sqlstate
-- what is known goes on
SELECT fence_check('ae:a', 6);

-- the longest prefix wins, whichever way
SELECT fence_accept_external('ae:etcd:', true);
SELECT fence_accept_external('ae:etcd:x:', false);
SELECT fence_accept_external('ae:etcd:x:y:');
SELECT fence_check('ae:etcd:1', 5);
SELECT fence_check('ae:etcd:x:1', 5);
SELECT fence_check('ae:etcd:x:y:1', 5);
SELECT fence_check('ae:etcd', 5);
SELECT fence_check('ae:etcd:', 5);
SELECT fence_check('ae:etcd:x', 5);
SELECT fence_check('ae:etcd:x:', 5);
SELECT fence_check('ae:etce:1', 5);
SELECT fence_check('a', 5);
SELECT fence_check('zzz', 5);
-- neighbours in byte order that are no prefixes
SELECT fence_accept_external('ae:etcd:m', true);
SELECT fence_accept_external('ae:etcd:w~', false);
SELECT fence_accept_external('ae:etcd:x:0', true);
SELECT fence_check('ae:etcd:x:2', 5);
SELECT fence_check('ae:etcd:x:02', 5);
SELECT fence_check('ae:etcd:w', 5);
SELECT fence_check('ae:etcd:n', 5);
-- bytes above the others, and a resource of full length
SELECT fence_accept_external(U&'ae:\00E9', true);
SELECT fence_check(U&'ae:\00E9t\00E9', 5);
SELECT fence_check(U&'ae:\00EAt\00E9', 5);
SELECT fence_accept_external(repeat('p', 512), true);
SELECT fence_check(repeat('p', 511), 5);
SELECT fence_check(repeat('p', 512), 5);

-- against an independent reading of the rule
CREATE FUNCTION ae_expected(r text) RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce((SELECT accepts_external FROM lockfence.prefix
                     WHERE starts_with(r, prefix)
                     ORDER BY octet_length(prefix) DESC LIMIT 1), true)
$$;
CREATE FUNCTION ae_accepts(r text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    passed boolean;
BEGIN
    BEGIN
        passed := fence_check(r, 1);
        RAISE EXCEPTION 'undo';
    EXCEPTION
        WHEN raise_exception THEN RETURN true;
        WHEN SQLSTATE 'LF003' THEN RETURN false;
    END;
END
$$;
DO $$
BEGIN
    FOR n IN 0..255 LOOP
        PERFORM fence_accept_external(translate(
            'q:' || substr(md5(n::text), 1, n % 5), '0123456789abcdef', 'aabbccddaabbccdd'), n % 2 = 0);
    END LOOP;
END
$$;
SELECT count(*) AS tried, count(*) FILTER (WHERE ae_accepts(r)) > 200 AS some_pass,
       count(*) FILTER (WHERE NOT ae_accepts(r)) > 200 AS some_do_not,
       count(*) FILTER (WHERE ae_accepts(r) <> ae_expected(r)) AS wrong
FROM (SELECT translate('q:' || substr(md5((n * 7919)::text), 1, n % 7), '0123456789abcdef', 'aabbccddaabbccdd') AS r
      FROM generate_series(1, 1000) n) x;

-- changed, and rolled back
SELECT fence_accept_external('ae:etcd:', false);
SELECT fence_check('ae:etcd:2', 5);
BEGIN;
SELECT fence_accept_external('ae:etcd:', true);
SELECT fence_check('ae:etcd:2', 5);
ROLLBACK;
SELECT fence_check('ae:etcd:2', 5);
SELECT fence_current('ae:etcd:2');

-- bad input
SELECT fence_accept_external(NULL);
SELECT fence_accept_external('ae:', NULL);
SELECT fence_accept_external(repeat('p', 513));
BEGIN READ ONLY;
SELECT fence_accept_external('ae:', true);
ROLLBACK;

-- a resource that was released is known: only its own tokens, none again
SELECT fence_release('ae:b', NULL, 'h');
SELECT fence_check('ae:b', 9223372036854775807);

-- a rule that was given is not lost in a crash
-- Mutant: fence_accept_external() without fence_commit_durably().
SET synchronous_commit = off;
BEGIN;
SELECT fence_accept_external('', true);
SHOW synchronous_commit;
COMMIT;
RESET synchronous_commit;

-- as it was
SELECT fence_accept_external('', true);
SELECT fence_check('zzz', 5);
TRUNCATE lockfence.prefix;
DROP FUNCTION ae_expected, ae_accepts;
