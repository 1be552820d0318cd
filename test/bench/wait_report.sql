\pset footer off
\pset tuples_only off
\pset format aligned
WITH next AS (
    SELECT what, extract(epoch FROM lead(got_at) OVER (PARTITION BY what ORDER BY token) - free_at) * 1000 AS ms
    FROM bench.handover)
SELECT what, count(ms), round(min(ms), 1) AS least,
       round(percentile_cont(0.5) WITHIN GROUP (ORDER BY ms)::numeric, 1) AS median,
       round(max(ms), 1) AS most
FROM next WHERE ms IS NOT NULL GROUP BY what ORDER BY what DESC;
