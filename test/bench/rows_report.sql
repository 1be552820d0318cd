SET search_path = bench, public;
SELECT r.load, r.variant,
       round(percentile_cont(0.5) WITHIN GROUP (ORDER BY r.ms)::numeric, 4) AS ms,
       round(percentile_cont(0.5) WITHIN GROUP (ORDER BY n.ms / r.ms)::numeric, 3) AS rate_to_n,
       round(min(n.ms / r.ms)::numeric, 3) AS least,
       round(max(n.ms / r.ms)::numeric, 3) AS most
FROM rows_result r JOIN rows_result n ON n.load = r.load AND n.round = r.round AND n.variant = 'N'
GROUP BY 1, 2
ORDER BY 1, array_position(ARRAY['none', 'N', 'lockfence', 'foreign key'], r.variant);
