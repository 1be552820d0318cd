-- watch.sql - lockfence on one screen, renewed every two seconds
--
--	psql -f doc/monitoring/watch.sql DATABASE
\pset pager off
\pset format unaligned
\t on
SELECT format(E'%s %s  since %s\ntokens: %s shown, %s accepted   rows: %s   bypasses: %s\n'
              'refused: %s stale (%s at commit), %s without token, %s never issued, %s conflicts   observed: %s\n'
              'leases: %s new, %s takeovers, %s again, %s held, %s unknown   renewals: %s, %s lost\n',
              s.datname, to_char(clock_timestamp(), 'HH24:MI:SS'),
              to_char(s.since, 'YYYY-MM-DD HH24:MI'), s.checks, s.accepted, s.rows_guarded, s.bypasses,
              s.stale_at_statement + s.stale_at_commit, s.stale_at_commit, s.missing,
              s.unissued_at_statement + s.unissued_at_commit, s.conflicts, s.observed,
              s.granted_new, s.granted_takeover, s.granted_again, s.held, s.unknown,
              s.renewed, s.lost)
       || E'\nin the way (stale or prepared):\n'
       || coalesce((SELECT string_agg(format('  %s  %s  token %s, fence %s, for %s',
                        coalesce(a.pid::text, a.gid), a.resource, a.token, a.fence,
                        date_trunc('second', clock_timestamp() - a.since)), E'\n' ORDER BY a.since)
                    FROM lockfence.activity a WHERE a.stale OR a.pid IS NULL), '  nobody')
       || E'\n\nlast refusals:\n'
       || coalesce((SELECT string_agg(format('  %s  %s%s  %s  %s  token %s, fence %s  %s',
                        to_char(r.at, 'HH24:MI:SS'), r.sqlstate, CASE WHEN r.observed THEN ' (observed)' END,
                        r.application_name, coalesce(r.resource, '(table)'), coalesce(r.token::text, 'none'), r.fence,
                        concat_ws(' ', r.command, r.target)), E'\n' ORDER BY r.at DESC)
                    FROM (SELECT * FROM lockfence.rejections ORDER BY at DESC LIMIT 15) r), '  none')
FROM lockfence.stats s
\watch 2
