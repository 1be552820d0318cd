SET search_path = bench, public;
SELECT clients, resources,
       round(percentile_cont(0.5) WITHIN GROUP (ORDER BY lockfence)::numeric, 3) AS lockfence,
       round(percentile_cont(0.5) WITHIN GROUP (ORDER BY upsert)::numeric, 3) AS upsert,
       round(percentile_cont(0.5) WITHIN GROUP (ORDER BY upsert / lockfence)::numeric, 3) AS rate_to_upsert,
       round(min(upsert / lockfence)::numeric, 3) AS least,
       round(max(upsert / lockfence)::numeric, 3) AS most
FROM pair_result GROUP BY 1, 2 ORDER BY 1, 2;
