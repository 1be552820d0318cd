-- What all parts use: psql -v noop=PATH -v accounts=N
\set QUIET on
CREATE EXTENSION lockfence;
CREATE SCHEMA bench;
SET search_path = bench, public;

CREATE FUNCTION noop() RETURNS trigger AS :'noop' LANGUAGE C;

-- Nanoseconds that this backend has run; null where the kernel does not say.
CREATE FUNCTION cpu_ns() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT split_part(pg_read_file('/proc/self/schedstat', 0, 100, true), ' ', 1)::bigint $$;

CREATE TABLE result (part text, load text, variant text, wall_ms float8, cpu_ms float8);
CREATE TABLE rows_result (load text, round int, variant text, ms float8);

CREATE TABLE handover (what text, token bigint, got_at timestamptz, free_at timestamptz);

CREATE TABLE line (id int, account_id bigint, token bigint, description text);

-- The foreign key, and the fence written by hand.
CREATE TABLE account (account_id bigint PRIMARY KEY);
CREATE TABLE hand_fence (resource text COLLATE "C" PRIMARY KEY, token bigint NOT NULL);

-- FOR SHARE, so that nobody raises the fence before this transaction ends.
CREATE FUNCTION hand_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM hand_fence f
      WHERE f.resource = 'stmt:acct:' || NEW.account_id AND f.token = NEW.token
      FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stale token';
    END IF;
    RETURN NEW;
END
$$;

-- A table "name" guarded as the variant says.
CREATE PROCEDURE make_table(name text, variant text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %I (LIKE line)', name);
    CASE variant
        WHEN 'none' THEN
        WHEN 'N' THEN
            EXECUTE format('CREATE TRIGGER noop BEFORE INSERT OR UPDATE OR DELETE ON %I
                            FOR EACH ROW EXECUTE FUNCTION noop()', name);
        WHEN 'lockfence' THEN
            PERFORM fence_protect(name::regclass, 'stmt:acct:{account_id}', 'token');
        WHEN 'foreign key' THEN
            EXECUTE format('ALTER TABLE %I ADD FOREIGN KEY (account_id) REFERENCES account', name);
        WHEN 'PL/pgSQL' THEN
            EXECUTE format('CREATE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE ON %I
                            FOR EACH ROW EXECUTE FUNCTION hand_guard()', name);
    END CASE;
END
$$;

INSERT INTO account SELECT generate_series(0, :accounts - 1);
SELECT count(fence_issue('stmt:acct:' || a, 'bench')) FROM generate_series(0, :accounts - 1) a \g /dev/null
INSERT INTO hand_fence SELECT resource, token FROM lockfence.fence;
CREATE TABLE issued AS
    SELECT substr(resource, 11)::bigint AS account_id, token FROM lockfence.fence;
VACUUM ANALYZE;
