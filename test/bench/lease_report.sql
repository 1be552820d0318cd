SET search_path = bench, public;
WITH best AS (
    SELECT clients, resources, variant, max(loops) AS loops, max(grants) AS grants, min(cpu) AS cpu
    FROM lease_result GROUP BY 1, 2, 3)
SELECT clients, resources, variant, round(loops) AS attempts,
       CASE WHEN variant <> 'advisory' THEN round(grants) END AS grants,
       round(cpu) AS cpu_us,
       round((loops / first_value(loops) OVER w)::numeric, 2) AS attempts_to_upsert,
       CASE WHEN variant <> 'advisory' THEN
           round((grants / nullif(first_value(grants) OVER w, 0))::numeric, 2) END AS grants_to_upsert
FROM best
WINDOW w AS (PARTITION BY clients, resources ORDER BY variant DESC)
ORDER BY clients, resources, variant DESC;
