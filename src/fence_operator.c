/*
 * fence_operator.c
 *		SQL entries for operators: fence_bypass, fence_evict and
 *		fence_stats_reset.
 *
 * Rule: what these do is logged or counted, since each goes around something.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"

#include "fence_activity.h"
#include "fence_bypass.h"
#include "fence_param.h"
#include "fence_stats.h"
#include "fence_table.h"

PG_FUNCTION_INFO_V1(fence_bypass);
PG_FUNCTION_INFO_V1(fence_evict);
PG_FUNCTION_INFO_V1(fence_stats_reset);

/*
 * fence_bypass(target regclass, reason text) returns void
 *
 * This transaction may write the table and its partitions without a token. For
 * backfills and corrections; the token columns stay as they are written.
 */
Datum
fence_bypass(PG_FUNCTION_ARGS)
{
	Oid			target = fence_param_relation(fcinfo, 0);
	FenceString reason = fence_param_reason(fcinfo, 1);
	ListCell   *cell;

	PreventCommandIfParallelMode("fence_bypass()");
	if (get_rel_name(target) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", target)));

	fence_stats_begin();
	foreach(cell, find_all_inheritors(target, AccessShareLock, NULL))
		fence_bypass_add(lfirst_oid(cell));
	fence_count(FENCE_COUNT_BYPASSES);
	ereport(LOG,
			(errmsg("table \"%s.%s\" is written without its guard in this transaction",
					get_namespace_name(get_rel_namespace(target)),
					get_rel_name(target)),
			 errdetail("Reason: %.*s", reason.len, reason.data)));
	PG_RETURN_VOID();
}

/*
 * fence_evict(resource text) returns integer
 *
 * Terminate the backends whose open transaction is admitted for the resource
 * with a token below its fence; returns how many. Such a transaction cannot
 * commit any more, but it still holds the locks on the rows it wrote. Needs
 * the rights of pg_terminate_backend, and shared memory.
 */
Datum
fence_evict(PG_FUNCTION_ARGS)
{
	FenceString resource = fence_param_resource(fcinfo, 0);
	FenceTable *table;
	FenceRow	row;
	int			evicted = 0;

	(void) fence_shared_needed();
	fence_stats_begin();

	table = fence_table_open(AccessShareLock);
	(void) fence_table_read(table, resource, &row);
	fence_table_close(table);

	for (int place = 0; row.found && place < FENCE_MAX_ACTIVITY; place++)
	{
		FenceActivityCopy copy;

		if (fence_activity_read(place, &copy) &&
			copy.pid != 0 && copy.pid != MyProcPid && copy.token < row.token &&
			fence_string_equal(fence_text_get(&copy.resource), resource) &&
			fence_activity_still(place, &copy) &&
			DatumGetBool(DirectFunctionCall2(pg_terminate_backend,
											 Int32GetDatum(copy.pid),
											 Int64GetDatum(0))))
		{
			fence_count(FENCE_COUNT_EVICTIONS);
			evicted++;
		}
	}
	PG_RETURN_INT32(evicted);
}

/* fence_stats_reset() returns void: counters of this database begin at zero */
Datum
fence_stats_reset(PG_FUNCTION_ARGS)
{
	(void) fence_shared_needed();
	(void) fence_stats_reset_counters();
	PG_RETURN_VOID();
}
