-- Best of all rounds: psql -v part=NAME [-v base=VARIANT]
\pset format aligned
\pset footer off
\pset tuples_only off
SET search_path = bench, public;
\if :{?base}
\else
\set base N
\endif
WITH best AS (
    SELECT load, variant, min(wall_ms) AS wall, min(cpu_ms) AS cpu,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu_ms) AS median_cpu
    FROM result WHERE part = :'part' GROUP BY load, variant)
SELECT b.load, b.variant,
       round(b.wall::numeric, CASE WHEN b.wall > 100 THEN 0 ELSE 4 END) AS wall_ms,
       round((b.wall / base.wall)::numeric, 3) AS ratio,
       round(b.cpu::numeric, CASE WHEN b.cpu > 100 THEN 0 ELSE 4 END) AS cpu_ms,
       round((b.cpu / nullif(base.cpu, 0))::numeric, 3) AS cpu_ratio,
       round((b.median_cpu / nullif(base.median_cpu, 0))::numeric, 3) AS median_cpu_ratio
FROM best b JOIN best base ON base.load = b.load AND base.variant = :'base'
ORDER BY b.load, array_position(ARRAY['none', 'N', 'lockfence', 'foreign key', 'PL/pgSQL'], b.variant), b.variant DESC;
