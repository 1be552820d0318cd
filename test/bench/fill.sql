-- Fences and leases that are there before: psql -v n=COUNT; res:N has token N
\set QUIET on
SET search_path = bench, public;
CREATE TABLE IF NOT EXISTS lease (
    resource text COLLATE "C" PRIMARY KEY, holder text NOT NULL, token bigint NOT NULL,
    expires_at timestamptz NOT NULL) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS lease_result (
    fsync text, clients int, resources int, variant text, loops float8, grants float8, cpu float8);
CREATE TABLE IF NOT EXISTS pair_result (
    fsync text, clients int, resources int, lockfence float8, upsert float8);
TRUNCATE lease;
DELETE FROM lockfence.fence WHERE resource LIKE 'res:%';
VACUUM lockfence.fence;
INSERT INTO lease SELECT 'res:' || g, 'nobody', 1, '-infinity' FROM generate_series(1, :n) g;
INSERT INTO lockfence.fence (resource, token, issued, released, holder, raised_at, raised_by)
    SELECT 'res:' || g, g, true, false, 'nobody', now(), '3'
    FROM generate_series(1, :n) g;
SELECT fence_new_epoch(:n) \g /dev/null
VACUUM ANALYZE lease;
VACUUM ANALYZE lockfence.fence;
CHECKPOINT;
