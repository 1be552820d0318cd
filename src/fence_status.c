/*
 * fence_status.c
 *		SQL entries that read one fence, or what may start one.
 *
 * Rule: nothing is locked or written, so these work on a standby. What they
 * return is for people and for reconciling; shown back as a token it proves
 * nothing.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "fence_param.h"
#include "fence_prefix.h"
#include "fence_result.h"
#include "fence_table.h"

PG_FUNCTION_INFO_V1(fence_current);
PG_FUNCTION_INFO_V1(fence_status);
PG_FUNCTION_INFO_V1(lockfence_accepts_external);

static bool
read_row(FenceString resource, FenceRow *row)
{
	FenceTable *table = fence_table_open(AccessShareLock);
	bool		found = fence_table_read(table, resource, row);

	fence_table_close(table);
	return found;
}

/* fence_current(resource text) returns bigint, null if there is no fence */
Datum
fence_current(PG_FUNCTION_ARGS)
{
	FenceRow	row;

	if (!read_row(fence_param_resource(fcinfo, 0), &row))
		PG_RETURN_NULL();
	PG_RETURN_INT64(row.token);
}

/* fence_status(resource text): one row, all null if there is no fence */
Datum
fence_status(PG_FUNCTION_ARGS)
{
	enum
	{
		TOKEN, KIND, HOLDER, RELEASED, AUTHORITY, LIVE, EXPIRES_AT, VALID_FOR,
		COLUMNS
	};
	FenceResult result;
	FenceRow	row;

	fence_result_begin(&result, fcinfo, COLUMNS);
	if (read_row(fence_param_resource(fcinfo, 0), &row))
	{
		TimestampTz now = GetCurrentTimestamp();
		bool		live = fence_row_live(&row, now);

		fence_result_int64(&result, TOKEN, row.token);
		fence_result_cstring(&result, KIND, row.issued ? "issued" : "external");
		fence_result_string(&result, HOLDER, row.holder);
		fence_result_bool(&result, RELEASED, row.released);
		fence_result_bool(&result, LIVE, live);
		if (row.has_lease)
		{
			fence_result_name(&result, AUTHORITY, row.authority_data);
			fence_result_time(&result, EXPIRES_AT, row.expires_at);
			fence_result_usecs(&result, VALID_FOR,
							   live ? row.expires_at - now : 0);
		}
	}
	return fence_result_end(&result);
}

/*
 * lockfence.accepts_external(prefix text) returns boolean
 *
 * May a resource with this prefix start with an external token?
 */
Datum
lockfence_accepts_external(PG_FUNCTION_ARGS)
{
	FenceState	absent;

	fence_prefix_lookup(fence_param_prefix(fcinfo, 0), &absent);
	PG_RETURN_BOOL(absent.accepts_external);
}
