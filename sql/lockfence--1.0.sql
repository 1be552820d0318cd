\echo Use "CREATE EXTENSION lockfence" to load this file. \quit

-- The functions live in the schema that CREATE EXTENSION names; tables, views
-- and helpers live in schema lockfence. It may be one and the same schema, but
-- never one that somebody else already owns.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace
                   WHERE nspname OPERATOR(pg_catalog.=) 'lockfence') THEN
        CREATE SCHEMA lockfence;
    ELSIF pg_catalog.quote_ident('lockfence') OPERATOR(pg_catalog.<>) '@extschema@'
       OR NOT EXISTS (SELECT FROM pg_catalog.pg_namespace
                      WHERE nspname OPERATOR(pg_catalog.=) 'lockfence'
                        AND nspowner OPERATOR(pg_catalog.=)
                            (SELECT oid FROM pg_catalog.pg_roles
                             WHERE rolname OPERATOR(pg_catalog.=) current_user)) THEN
        RAISE EXCEPTION 'schema "lockfence" already exists'
            USING ERRCODE = 'duplicate_schema',
                  HINT = 'Drop the schema, or name it in CREATE EXTENSION ... SCHEMA lockfence if it is yours.';
    END IF;
END
$$;

COMMENT ON SCHEMA lockfence IS 'lockfence: fences, leases and what to see of them';
REVOKE ALL ON SCHEMA lockfence FROM PUBLIC;

--
-- Tables
--

-- One row for each resource that ever had a token: fence and lease together.
-- Room for HOT updates; vacuum in time for what was pruned, and without the
-- exclusive lock that a truncation takes (doc/pruning.md).
-- What a renewal or a release leaves alone stands at both ends, so that its WAL
-- record is short. src/fence_row.h relies on the order and types of these columns.
CREATE TABLE lockfence.fence (
    resource    text COLLATE "C" NOT NULL,
    token       bigint NOT NULL,
    raised_at   timestamptz NOT NULL,
    raised_by   xid8 NOT NULL,
    acquired_at timestamptz,
    renewed_at  timestamptz,
    expires_at  timestamptz,
    issued      boolean NOT NULL,
    released    boolean NOT NULL,
    holder      text,
    authority   text COLLATE "C",
    CONSTRAINT fence_pkey PRIMARY KEY (resource)
) USING heap WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05,
                  vacuum_truncate = off);
COMMENT ON TABLE lockfence.fence IS 'the highest token known for each resource, and its lease';
COMMENT ON COLUMN lockfence.fence.resource IS 'key of the thing protected, 1 to 512 bytes';
COMMENT ON COLUMN lockfence.fence.token IS 'the fence: the highest token known';
COMMENT ON COLUMN lockfence.fence.raised_at IS 'when the fence was last raised';
COMMENT ON COLUMN lockfence.fence.raised_by IS 'transaction that last raised the fence';
COMMENT ON COLUMN lockfence.fence.acquired_at IS 'when the lease was granted';
COMMENT ON COLUMN lockfence.fence.renewed_at IS 'when the lease was granted or last renewed';
COMMENT ON COLUMN lockfence.fence.expires_at IS 'when the lease ends by itself';
COMMENT ON COLUMN lockfence.fence.issued IS 'true if PostgreSQL mints the tokens, false if they are external';
COMMENT ON COLUMN lockfence.fence.released IS 'the generation ended by a release';
COMMENT ON COLUMN lockfence.fence.holder IS 'holder given with the raise, null if none was';
COMMENT ON COLUMN lockfence.fence.authority IS 'who granted the lease, null without a lease';

-- src/fence_prefix.c relies on the order and types of these columns.
CREATE TABLE lockfence.prefix (
    prefix           text COLLATE "C" NOT NULL,
    accepts_external boolean,
    floor            bigint NOT NULL,
    CONSTRAINT prefix_pkey PRIMARY KEY (prefix)
) USING heap;
COMMENT ON TABLE lockfence.prefix IS 'what resources without a fence may start with, by prefix';
COMMENT ON COLUMN lockfence.prefix.accepts_external IS 'may they start with an external token; the longest prefix with a rule decides, none means yes';
COMMENT ON COLUMN lockfence.prefix.floor IS 'highest token forgotten by pruning, 0 if none';

-- src/fence_operation.c relies on the order and types of these columns.
CREATE TABLE lockfence.operations (
    resource    text COLLATE "C" NOT NULL,
    operation   text COLLATE "C" NOT NULL,
    token       bigint NOT NULL,
    holder      text,
    accepted_at timestamptz NOT NULL,
    CONSTRAINT operations_pkey PRIMARY KEY (resource, operation)
) USING heap WITH (autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
COMMENT ON TABLE lockfence.operations IS 'operations accepted once, by fence_once';
COMMENT ON COLUMN lockfence.operations.resource IS 'the resource that was published';
COMMENT ON COLUMN lockfence.operations.operation IS 'name that the caller gave what it did';
COMMENT ON COLUMN lockfence.operations.token IS 'fencing token under which it was accepted';
COMMENT ON COLUMN lockfence.operations.holder IS 'holder of that token, null if unknown';
COMMENT ON COLUMN lockfence.operations.accepted_at IS 'when it was accepted';

-- CACHE 1, so that number order is grant order.
CREATE SEQUENCE lockfence.token AS bigint MINVALUE 1 NO CYCLE CACHE 1;
COMMENT ON SEQUENCE lockfence.token IS 'source of every token that this database issues';

-- Hash of system identifier, database, timeline and the sequence above under
-- which tokens were last issued; see src/fence_token.c.
CREATE SEQUENCE lockfence.identity AS bigint MINVALUE 1 NO CYCLE CACHE 1;
COMMENT ON SEQUENCE lockfence.identity IS 'identity under which tokens were last issued, as a hash; never counted';

SELECT pg_catalog.pg_extension_config_dump('lockfence.fence', '');
SELECT pg_catalog.pg_extension_config_dump('lockfence.prefix', '');
SELECT pg_catalog.pg_extension_config_dump('lockfence.operations', '');
SELECT pg_catalog.pg_extension_config_dump('lockfence.token', '');
SELECT pg_catalog.pg_extension_config_dump('lockfence.identity', '');

--
-- Enforcement
--

CREATE FUNCTION @extschema@.fence_check(resource text, token bigint, holder text DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_check(text, bigint, text) IS
    'admit this transaction for a resource, or refuse its token';

CREATE FUNCTION @extschema@.fence_once(
    resource text, token bigint, operation text, holder text DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_once(text, bigint, text, text) IS
    'admit, and record an operation: true the first time, false if it was accepted before';

CREATE FUNCTION @extschema@.fence_current(resource text)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_current(text) IS
    'the fence of a resource, null if unknown; proves nothing when shown back';

-- Rows have named types: of OUT parameters each call would build its row anew.
CREATE TYPE lockfence.resource_status AS (
    token bigint, kind text, holder text, released boolean,
    authority name, live boolean, expires_at timestamptz,
    valid_for interval);
COMMENT ON TYPE lockfence.resource_status IS 'what fence_status answers';

CREATE FUNCTION @extschema@.fence_status(resource text)
RETURNS lockfence.resource_status
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_status(text) IS
    'what is known of a resource: fence, holder and lease';

CREATE FUNCTION @extschema@.fence_trigger()
RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_trigger() IS
    'guard of a protected table: row trigger that checks tokens, TRUNCATE trigger that refuses';

CREATE FUNCTION @extschema@.fence_protect(
    target regclass, resource text, token_column name DEFAULT NULL,
    present text DEFAULT NULL, mode text DEFAULT 'enforce')
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_protect(regclass, text, name, text, text) IS
    'protect a table, or change or repair its protection';

CREATE FUNCTION @extschema@.fence_unprotect(target regclass)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_unprotect(regclass) IS
    'remove the protection of a table';

CREATE FUNCTION @extschema@.fence_resource(target regclass, row_data jsonb)
RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_resource(regclass, jsonb) IS
    'the resource that such a row of a protected table maps to';

CREATE FUNCTION @extschema@.fence_accept_external(prefix text, accept boolean DEFAULT true)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_accept_external(text, boolean) IS
    'set whether resources with this prefix may start with an external token';

CREATE FUNCTION @extschema@.fence_adopt(resource text)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_adopt(text) IS
    'turn an external fence into one whose tokens PostgreSQL issues';

CREATE FUNCTION @extschema@.fence_override(resource text, token bigint)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_override(text, bigint) IS
    'set an external fence by hand, after a wrong token';

--
-- Leases and issuing
--

CREATE TYPE lockfence.acquired AS (
    status text, token bigint, how text, held_by text,
    expires_at timestamptz, valid_for interval,
    retry_after interval, reason text);
COMMENT ON TYPE lockfence.acquired IS 'what fence_acquire answers';

CREATE TYPE lockfence.acquired_all AS (
    status text, token bigint, how text, held_by text,
    expires_at timestamptz, valid_for interval,
    retry_after interval, reason text, resource text);
COMMENT ON TYPE lockfence.acquired_all IS 'what fence_acquire_all answers';

CREATE TYPE lockfence.renewed AS (
    status text, expires_at timestamptz, valid_for interval);
COMMENT ON TYPE lockfence.renewed IS 'what fence_renew answers';

CREATE FUNCTION @extschema@.fence_acquire(
    resource text, holder text, ttl interval,
    wait interval DEFAULT '0', authority name DEFAULT 'postgres')
RETURNS lockfence.acquired
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_acquire(text, text, interval, interval, name) IS
    'take the lease of a resource together with its token';

CREATE FUNCTION @extschema@.fence_acquire_all(
    resources text[], holder text, ttl interval, wait interval DEFAULT '0')
RETURNS lockfence.acquired_all
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_acquire_all(text[], text, interval, interval) IS
    'take the leases of several resources with one token, all or none';

CREATE FUNCTION @extschema@.fence_renew(
    resource text, token bigint, holder text, ttl interval)
RETURNS lockfence.renewed
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_renew(text, bigint, text, interval) IS
    'prolong a live lease; never steals, inserts or revives';

CREATE FUNCTION @extschema@.fence_release(
    resource text, token bigint, holder text, authority name DEFAULT NULL)
RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_release(text, bigint, text, name) IS
    'give a lease back and end its generation';

CREATE FUNCTION @extschema@.fence_issue(resource text, holder text)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_issue(text, text) IS
    'mint a token for a lease held elsewhere and raise the fence';

CREATE VIEW lockfence.leases AS
    SELECT f.resource, f.token, f.holder,
           f.authority::pg_catalog.name AS authority, f.acquired_at,
           f.renewed_at, f.expires_at,
           (NOT f.released AND f.expires_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()) AS live
    FROM lockfence.fence f
    WHERE f.authority IS NOT NULL AND NOT f.released;
COMMENT ON VIEW lockfence.leases IS 'leases that were granted and not released, live or expired';

--
-- Leases of Redis
--

CREATE FUNCTION lockfence.redis_validator(options text[], catalog oid)
RETURNS void
AS 'MODULE_PATHNAME', 'lockfence_redis_validator' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION lockfence.redis_validator(text[], oid) IS
    'checks the options of Redis servers and of user mappings for them';

CREATE FOREIGN DATA WRAPPER lockfence_redis VALIDATOR lockfence.redis_validator;
COMMENT ON FOREIGN DATA WRAPPER lockfence_redis IS
    'servers of this wrapper are Redis lease authorities; no foreign tables';

CREATE FUNCTION @extschema@.fence_redis_check(
    server name,
    OUT severity text, OUT problem text, OUT remedy text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_redis_check(name) IS
    'what is found about a Redis server that could cost leases; no row if nothing is';

--
-- Forgetting
--

CREATE FUNCTION @extschema@.fence_prune(
    prefix text, idle interval, external boolean DEFAULT false,
    max_rows bigint DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_prune(text, interval, boolean, bigint) IS
    'forget idle fences so that no forgotten token is ever accepted again';

CREATE FUNCTION @extschema@.fence_prune_operations(prefix text, older_than interval)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_prune_operations(text, interval) IS
    'forget accepted operations, which may then be accepted again';

CREATE FUNCTION @extschema@.fence_new_epoch(above bigint DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_new_epoch(bigint) IS
    'after restoring an older state that left no trace: move issuing far beyond it';

--
-- What is protected
--

CREATE TYPE lockfence.guard_arguments AS (
    resource text, token_column name, present text, mode text,
    firing text);
COMMENT ON TYPE lockfence.guard_arguments IS 'what lockfence.guard reads';

CREATE FUNCTION lockfence.guard(trigger_oid oid)
RETURNS lockfence.guard_arguments
AS 'MODULE_PATHNAME', 'lockfence_guard' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION lockfence.guard(oid) IS 'the arguments of one guard trigger, parsed';

CREATE VIEW lockfence.protected_tables AS
    SELECT t.tgrelid::pg_catalog.regclass AS target, g.resource, g.token_column,
           g.present, g.mode,
           CASE t.tgenabled
               WHEN 'O' THEN 'origin' WHEN 'A' THEN 'always'
               WHEN 'R' THEN 'replica' ELSE 'disabled'
           END AS firing
    FROM pg_catalog.pg_trigger t, LATERAL lockfence.guard(t.oid) g
    WHERE t.tgfoid OPERATOR(pg_catalog.=) '@extschema@.fence_trigger()'::pg_catalog.regprocedure
      AND (t.tgtype OPERATOR(pg_catalog.&) 1::smallint) OPERATOR(pg_catalog.=) 1;
COMMENT ON VIEW lockfence.protected_tables IS 'tables and partitions with a row guard, and how they are guarded';

--
-- What happens
--

CREATE TYPE lockfence.counters AS (
    checks bigint, rows_guarded bigint, accepted bigint,
    stale_at_statement bigint, stale_at_commit bigint,
    missing bigint, unissued_at_statement bigint,
    unissued_at_commit bigint, conflicts bigint, observed bigint,
    granted_new bigint, granted_takeover bigint,
    granted_again bigint, held bigint, refused bigint,
    unknown bigint, renewed bigint, lost bigint,
    renew_unknown bigint, released bigint, outlived bigint,
    issued bigint, once_accepted bigint, once_repeated bigint,
    bypasses bigint, evictions bigint, redis_errors bigint,
    since timestamptz);
COMMENT ON TYPE lockfence.counters IS 'what lockfence.read_stats reads';

CREATE FUNCTION lockfence.read_stats()
RETURNS lockfence.counters
AS 'MODULE_PATHNAME', 'lockfence_stats' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION lockfence.read_stats() IS 'counters of this database';

CREATE VIEW lockfence.stats AS
    SELECT pg_catalog.current_database() AS datname, s.*
    FROM lockfence.read_stats() s;
COMMENT ON VIEW lockfence.stats IS 'what has been counted in this database, and since when';

CREATE FUNCTION lockfence.read_rejections(
    OUT at timestamptz, OUT datid oid, OUT usesysid oid,
    OUT application_name text, OUT client_addr inet, OUT pid integer,
    OUT resource text, OUT token bigint, OUT holder text, OUT fence bigint,
    OUT fence_holder text, OUT target regclass, OUT command text,
    OUT place text, OUT sqlstate text, OUT observed boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockfence_rejections' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION lockfence.read_rejections() IS 'the last refusals in this server';

CREATE VIEW lockfence.rejections AS
    SELECT r.at, d.datname, u.rolname AS usename, r.application_name,
           r.client_addr, r.pid, r.resource, r.token, r.holder, r.fence,
           r.fence_holder, r.target, r.command, r.place, r.sqlstate, r.observed
    FROM lockfence.read_rejections() r
    LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) r.datid
    LEFT JOIN pg_catalog.pg_roles u ON u.oid OPERATOR(pg_catalog.=) r.usesysid;
COMMENT ON VIEW lockfence.rejections IS 'the last refusals, kept over the rollback that each causes';

CREATE FUNCTION lockfence.read_activity(
    OUT pid integer, OUT transaction xid, OUT usesysid oid, OUT resource text,
    OUT token bigint, OUT fence bigint, OUT stale boolean, OUT since timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockfence_activity' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION lockfence.read_activity() IS 'admissions of open and prepared transactions in this database';

CREATE VIEW lockfence.activity AS
    SELECT a.pid, p.gid, a.resource, a.token, a.fence, a.stale, a.since
    FROM lockfence.read_activity() a
    LEFT JOIN pg_catalog.pg_prepared_xact() p
           ON p.transaction OPERATOR(pg_catalog.=) a.transaction
    UNION ALL
    -- Prepared before the last restart, or without room: what it has locked
    -- still tells that it has a fence, though not of which resource.
    SELECT NULL::integer, p.gid, NULL::text, NULL::bigint, NULL::bigint,
           NULL::boolean, p.prepared
    FROM pg_catalog.pg_prepared_xact() p
    JOIN pg_catalog.pg_lock_status() x
      ON x.transactionid OPERATOR(pg_catalog.=) p.transaction
     AND x.granted AND x.pid IS NULL
    JOIN pg_catalog.pg_lock_status() r
      ON r.virtualtransaction OPERATOR(pg_catalog.=) x.virtualtransaction
     AND r.pid IS NULL
    WHERE r.relation OPERATOR(pg_catalog.=) 'lockfence.fence'::pg_catalog.regclass
      AND r.mode OPERATOR(pg_catalog.<>) 'AccessShareLock'
      AND p.dbid OPERATOR(pg_catalog.=)
          (SELECT d.oid FROM pg_catalog.pg_database d
           WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
      AND NOT EXISTS (SELECT FROM lockfence.read_activity() a
                      WHERE a.transaction OPERATOR(pg_catalog.=) p.transaction)
    GROUP BY p.gid, p.prepared;
COMMENT ON VIEW lockfence.activity IS 'open and prepared transactions with their admissions, judged against the fence as it is now';

CREATE FUNCTION @extschema@.fence_stats_reset()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_stats_reset() IS
    'set the counters of this database to zero';

CREATE FUNCTION @extschema@.fence_evict(resource text)
RETURNS integer
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_evict(text) IS
    'terminate backends whose open transaction is admitted with a token below the fence';

CREATE FUNCTION @extschema@.fence_bypass(target regclass, reason text)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.fence_bypass(regclass, text) IS
    'let this transaction write a protected table unguarded';

--
-- Audit
--

CREATE VIEW lockfence.fences AS
    SELECT f.resource, f.token,
           CASE WHEN f.issued THEN 'issued' ELSE 'external' END AS kind,
           f.holder, f.released, f.raised_at
    FROM lockfence.fence f;
COMMENT ON VIEW lockfence.fences IS 'the highest token known for each resource; shown back it proves nothing';

CREATE FUNCTION lockfence.check_guard(target regclass, trigger_oid oid)
RETURNS void
AS 'MODULE_PATHNAME', 'lockfence_check_guard' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION lockfence.check_guard(regclass, oid) IS 'raises what the guard would raise for every write';

CREATE FUNCTION lockfence.above_fence(target regclass, trigger_oid oid, row_data record)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockfence_above_fence' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION lockfence.above_fence(regclass, oid, record) IS 'does a row of a guarded table carry a token above the fence of its resource';

CREATE FUNCTION lockfence.accepts_external(prefix text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'lockfence_accepts_external' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION lockfence.accepts_external(text) IS 'may resources with this prefix start with an external token';

CREATE FUNCTION @extschema@.fence_audit(deep boolean DEFAULT false)
RETURNS TABLE (severity text, target regclass, problem text, remedy text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET row_security = off
AS $audit$
DECLARE
    guard record;
    above bigint;
BEGIN
    -- Guards that do not fire, or not as they were declared to.
    RETURN QUERY
    SELECT CASE WHEN t.tgenabled = 'D' OR t.tgenabled = 'R' THEN 'critical' ELSE 'warning' END,
           t.tgrelid::regclass,
           CASE t.tgenabled
               WHEN 'D' THEN format('trigger %I is disabled', t.tgname)
               WHEN 'R' THEN format('trigger %I fires for replicated changes only', t.tgname)
               ELSE format('trigger %I was declared to fire always, and fires for origin changes only', t.tgname)
           END,
           format('ALTER TABLE %s ENABLE %sTRIGGER %I', t.tgrelid::regclass,
                  CASE WHEN g.firing = 'always' THEN 'ALWAYS ' ELSE '' END, t.tgname)
    FROM pg_trigger t, LATERAL lockfence.guard(t.oid) g
    WHERE t.tgfoid = '@extschema@.fence_trigger()'::regprocedure
      AND (t.tgenabled IN ('D', 'R') OR (g.firing = 'always' AND t.tgenabled <> 'A'));

    -- Guards that do not fit their table: columns, arguments, other triggers.
    FOR guard IN
        SELECT t.oid, t.tgrelid::regclass AS target, g.mode
        FROM pg_trigger t, LATERAL lockfence.guard(t.oid) g
        WHERE t.tgfoid = '@extschema@.fence_trigger()'::regprocedure AND t.tgtype & 1 = 1
    LOOP
        BEGIN
            PERFORM lockfence.check_guard(guard.target, guard.oid);
        EXCEPTION WHEN OTHERS THEN
            RETURN QUERY SELECT 'critical'::text, guard.target, SQLERRM,
                'Mend the table, or run fence_protect again: until then '
                || CASE guard.mode WHEN 'observe' THEN 'the guard judges nothing'
                                   ELSE 'every write fails' END;
        END;
    END LOOP;

    -- Tables and partitions that TRUNCATE can empty.
    RETURN QUERY
    SELECT 'critical'::text, t.tgrelid::regclass,
           'TRUNCATE is not refused'::text,
           format('SELECT fence_protect(%L, ...) again on the protected table itself',
                  coalesce((SELECT max(a.relid::oid::regclass::text)
                            FROM pg_partition_ancestors(t.tgrelid) a
                            WHERE NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = a.relid)),
                           t.tgrelid::regclass::text))
    FROM pg_trigger t
    WHERE t.tgfoid = '@extschema@.fence_trigger()'::regprocedure AND t.tgtype & 1 = 1
      AND NOT EXISTS (SELECT FROM pg_trigger s
                      WHERE s.tgrelid = t.tgrelid AND s.tgfoid = t.tgfoid
                        AND s.tgtype & 32 = 32);

    -- A partition that was detached keeps the guard against TRUNCATE only.
    RETURN QUERY
    SELECT 'critical'::text, t.tgrelid::regclass,
           'TRUNCATE is refused, but rows are not guarded'::text,
           format('SELECT fence_protect(%1$L, ...), or SELECT fence_unprotect(%1$L)', t.tgrelid::regclass)
    FROM pg_trigger t
    WHERE t.tgfoid = '@extschema@.fence_trigger()'::regprocedure AND t.tgtype & 1 = 0
      AND NOT EXISTS (SELECT FROM pg_trigger s
                      WHERE s.tgrelid = t.tgrelid AND s.tgfoid = t.tgfoid
                        AND s.tgtype & 1 = 1);

    -- Rows of plain inheritance children pass no guard of the parent.
    RETURN QUERY
    SELECT 'critical'::text, i.inhrelid::regclass,
           format('rows are reached through protected table %s, whose guard does not see them',
                  t.tgrelid::regclass),
           'Protect the child itself, or use partitions.'::text
    FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid AND c.relkind = 'r'
    JOIN pg_inherits i ON i.inhparent = t.tgrelid
    WHERE t.tgfoid = '@extschema@.fence_trigger()'::regprocedure AND t.tgtype & 1 = 1
      AND NOT EXISTS (SELECT FROM pg_trigger s
                      WHERE s.tgrelid = i.inhrelid AND s.tgfoid = t.tgfoid
                        AND s.tgtype & 1 = 1);

    -- Parts of a template that can run into each other.
    RETURN QUERY
    SELECT 'warning'::text, t.tgrelid::regclass,
           format('different rows can map to one resource of template "%s"', g.resource),
           'Put a literal between the columns, and use at most one column of a text type.'::text
    FROM pg_trigger t, LATERAL lockfence.guard(t.oid) g,
         LATERAL (SELECT replace(replace(g.resource, '{{', ''), '}}', '') AS template) x
    WHERE t.tgfoid = '@extschema@.fence_trigger()'::regprocedure AND t.tgtype & 1 = 1
      AND (x.template ~ '\}\{'
           OR 1 < (SELECT count(*)
                   FROM regexp_matches(x.template, '\{([^{}]+)\}', 'g') m
                   JOIN pg_attribute a ON a.attrelid = t.tgrelid AND a.attname = m[1]
                   JOIN pg_type y ON y.oid = a.atttypid
                   WHERE y.typcategory = 'S'));

    -- Tables with the same key that nobody guards.
    RETURN QUERY
    SELECT DISTINCT 'info'::text, s.oid::regclass,
           format('not protected, and has the key columns of protected table %s', t.tgrelid::regclass),
           'Protect it too if its rows belong to the same resource.'::text
    FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid,
    LATERAL lockfence.guard(t.oid) g,
    LATERAL (SELECT array_agg(m[1]) AS names
             FROM regexp_matches(replace(replace(g.resource, '{{', ''), '}}', ''),
                                 '\{([^{}]+)\}', 'g') m) k
    JOIN pg_class s ON s.relkind IN ('r', 'p') AND NOT s.relispartition
    WHERE t.tgfoid = '@extschema@.fence_trigger()'::regprocedure AND t.tgtype & 1 = 1
      AND s.relnamespace = c.relnamespace AND s.oid <> c.oid AND k.names IS NOT NULL
      AND NOT EXISTS (SELECT FROM pg_trigger x WHERE x.tgrelid = s.oid AND x.tgfoid = t.tgfoid)
      AND NOT EXISTS (
          SELECT FROM unnest(k.names) n
          WHERE NOT EXISTS (SELECT FROM pg_attribute a
                            JOIN pg_attribute b ON b.attrelid = t.tgrelid AND b.attname = n
                            WHERE a.attrelid = s.oid AND a.attname = n
                              AND NOT a.attisdropped AND a.atttypid = b.atttypid));

    -- A subscriber gets the rows of a published table, but no fences.
    RETURN QUERY
    SELECT 'warning'::text, t.tgrelid::regclass,
           format('published by %I, and its fences are not', p.pubname),
           'Writers on a subscriber are not fenced; publish lockfence.fence too, or let nobody write there.'::text
    FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_publication_tables p ON p.schemaname = n.nspname AND p.tablename = c.relname
    WHERE t.tgfoid = '@extschema@.fence_trigger()'::regprocedure AND t.tgtype & 1 = 1
      AND NOT EXISTS (SELECT FROM pg_publication_tables q
                      WHERE q.pubname = p.pubname AND q.schemaname = 'lockfence'
                        AND q.tablename = 'fence');

    -- A crash empties what is not permanent.
    RETURN QUERY
    SELECT 'critical'::text, c.oid::regclass, 'it is not permanent: a crash empties it'::text,
           format('ALTER %s %s SET LOGGED', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
                  c.oid::regclass)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'lockfence' AND c.relkind IN ('r', 'S') AND c.relpersistence <> 'p';

    -- External fences where this database issues the others.
    RETURN QUERY
    SELECT 'warning'::text, NULL::regclass,
           format('%s external and %s issued fences have the prefix "%s"', count(*) FILTER (WHERE f.kind = 'external'),
                  count(*) FILTER (WHERE f.kind = 'issued'), x.prefix),
           format('Look for misspelt resources, then SELECT fence_accept_external(%L, false)', x.prefix)
    FROM lockfence.fences f, LATERAL (SELECT regexp_replace(f.resource, '[^:/]*$', '') AS prefix) x
    GROUP BY x.prefix
    HAVING count(*) FILTER (WHERE f.kind = 'external') > 0
       AND count(*) FILTER (WHERE f.kind = 'issued') > 0;

    -- Nothing but issued fences, and yet a misspelt resource would open a new one.
    RETURN QUERY
    SELECT 'info'::text, NULL::regclass,
           'all fences are issued here, and resources may still start with an external token'::text,
           'SELECT fence_accept_external('''', false)'::text
    WHERE EXISTS (SELECT FROM lockfence.fences)
      AND NOT EXISTS (SELECT FROM lockfence.fences f WHERE f.kind = 'external')
      AND lockfence.accepts_external('');

    -- The owner of a table must not get code of theirs to run with the rights of
    -- whoever looks: no cast, operator or check of a column's type is used on the
    -- rows, and no policy.
    IF deep THEN
        FOR guard IN
            SELECT t.oid, t.tgrelid::regclass AS target
            FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid,
                 LATERAL lockfence.guard(t.oid) g
            WHERE t.tgfoid = '@extschema@.fence_trigger()'::regprocedure AND t.tgtype & 1 = 1
              AND g.token_column IS NOT NULL AND c.relkind = 'r'
              AND EXISTS (SELECT FROM pg_attribute a
                          WHERE a.attrelid = c.oid AND a.attname = g.token_column AND NOT a.attisdropped)
        LOOP
          BEGIN
            EXECUTE format(
                'SELECT count(*) FROM ONLY %1$s r WHERE lockfence.above_fence(%2$L::pg_catalog.regclass, %3$s, r)',
                guard.target, guard.target::text, guard.oid) INTO above;
            IF above > 0 THEN
                RETURN QUERY SELECT 'critical'::text, guard.target,
                    format('%s rows carry a token above the fence of their resource', above),
                    'An older state was restored, or fences were pruned or overridden; see fence_new_epoch.'::text;
            END IF;
          EXCEPTION WHEN OTHERS THEN
            RETURN QUERY SELECT 'warning'::text, guard.target,
                format('the tokens of its rows could not be compared: %s', SQLERRM),
                'Mend it, or let somebody look who may read the table.'::text;
          END;
        END LOOP;
    END IF;
END
$audit$;
COMMENT ON FUNCTION @extschema@.fence_audit(boolean) IS
    'one row for each weakness found in how tables are protected';

--
-- Rights
--

CREATE FUNCTION @extschema@.fence_grant(grantee regrole, what text DEFAULT 'worker')
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION @extschema@.fence_grant(regrole, text) IS
    'hand out the rights of a worker, monitor or operator';

REVOKE ALL ON FUNCTION @extschema@.fence_check(text, bigint, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_once(text, bigint, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_current(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_status(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_accept_external(text, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_adopt(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_override(text, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_acquire(text, text, interval, interval, name) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_acquire_all(text[], text, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_renew(text, bigint, text, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_release(text, bigint, text, name) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_issue(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_redis_check(name) FROM PUBLIC;
REVOKE ALL ON FUNCTION lockfence.redis_validator(text[], oid) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_prune(text, interval, boolean, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_prune_operations(text, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_new_epoch(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_grant(regrole, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_stats_reset() FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_evict(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_bypass(regclass, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.fence_audit(boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION lockfence.guard(oid) FROM PUBLIC;
REVOKE ALL ON FUNCTION lockfence.check_guard(regclass, oid) FROM PUBLIC;
REVOKE ALL ON FUNCTION lockfence.above_fence(regclass, oid, record) FROM PUBLIC;
REVOKE ALL ON FUNCTION lockfence.accepts_external(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION lockfence.read_stats() FROM PUBLIC;
REVOKE ALL ON FUNCTION lockfence.read_rejections() FROM PUBLIC;
REVOKE ALL ON FUNCTION lockfence.read_activity() FROM PUBLIC;

-- Owners migrate and restore protected tables themselves.
GRANT EXECUTE ON FUNCTION @extschema@.fence_trigger() TO PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.fence_protect(regclass, text, name, text, text) TO PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.fence_unprotect(regclass) TO PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.fence_resource(regclass, jsonb) TO PUBLIC;
