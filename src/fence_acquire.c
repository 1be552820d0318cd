/*
 * fence_acquire.c
 *		SQL entry: fence_acquire, lease and token in one call.
 *
 * Rules: an acquire never waits for a stale holder's open transaction, which
 * has nothing locked here. Each look reads the latest state without a lock,
 * decides, and locks exactly the version it read, without waiting; if that is
 * not the newest any more, it looks again. So "held" locks and writes nothing,
 * and whatever has to be waited for is waited for between looks.
 *
 * Time is read from the clock after the lock, never from the transaction's
 * start.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/timestamp.h"

#include "fence_generation.h"
#include "fence_param.h"
#include "fence_result.h"
#include "fence_session.h"
#include "fence_wait.h"

PG_FUNCTION_INFO_V1(fence_acquire);

typedef struct Request
{
	FenceString resource;
	FenceString holder;
	int64		ttl;			/* microseconds */
	const char *authority;
} Request;

typedef enum Look
{
	LOOK_GRANTED,
	LOOK_HELD,
	LOOK_AGAIN					/* the row has just changed */
} Look;

/* Did this holder get the lease from the same authority? */
static bool
same_lease(const FenceRow *row, const Request *request)
{
	return row->holder.data != NULL &&
		fence_string_equal(row->holder, request->holder) &&
		strcmp(row->authority_data, request->authority) == 0;
}

/* Give the live lease to its holder once more, with the same token. */
static Look
confirm(FenceTable *table, const Request *request, FenceRow *row)
{
	FenceOffer	offer = {0};
	TimestampTz now;

	switch (fence_table_lock_seen(table, row, LockTupleNoKeyExclusive))
	{
		case FENCE_LOCKED:
			break;
		case FENCE_WOULD_BLOCK:
			return LOOK_HELD;
		default:
			return LOOK_AGAIN;
	}

	offer.resource = request->resource;
	offer.token = row->token;
	offer.holder = request->holder;
	(void) fence_admit(&offer);

	now = GetCurrentTimestamp();
	row->renewed_at = now;
	row->expires_at = now + request->ttl;
	fence_table_update(table, request->resource, row);
	fence_commit_durably();
	return LOOK_GRANTED;
}

/* Look once, and take the lease if it is free. */
static Look
look(FenceTable *table, const Request *request, FenceRow *row,
	 const char **how, FenceObstacle *obstacle)
{
	TimestampTz now;

	if (!fence_table_read(table, request->resource, row))
	{
		if (TransactionIdIsValid(row->inserter))
		{
			fence_obstacle_lock(obstacle, table, row);
			return LOOK_HELD;
		}
		if (!fence_table_lock_absent(table, request->resource))
			return LOOK_AGAIN;
		*how = "new";
		fence_generation_start(table, request->resource, row, request->holder,
							   request->authority, request->ttl);
		return LOOK_GRANTED;
	}

	fence_generation_refuse_external(request->resource, row);

	now = GetCurrentTimestamp();
	if (fence_row_live(row, now))
	{
		Look		result;

		if (!same_lease(row, request))
		{
			fence_obstacle_lease(obstacle, row->expires_at - now);
			return LOOK_HELD;
		}
		*how = "again";
		result = confirm(table, request, row);
		if (result == LOOK_HELD)
			fence_obstacle_lock(obstacle, table, row);
		return result;
	}

	switch (fence_table_lock_seen(table, row, LockTupleExclusive))
	{
		case FENCE_LOCKED:
			*how = row->released ? "new" : "takeover";
			fence_generation_start(table, request->resource, row,
								   request->holder, request->authority,
								   request->ttl);
			return LOOK_GRANTED;

		case FENCE_WOULD_BLOCK:
			fence_obstacle_lock(obstacle, table, row);
			return LOOK_HELD;

		default:
			return LOOK_AGAIN;
	}
}

/*
 * fence_acquire(resource text, holder text, ttl interval, wait interval,
 *				 authority name)
 *
 * One row: granted, or held with the reason once the wait is over. Raises
 * 25006 where nothing can be written, 55000 for an external resource, LF001 if
 * this transaction was admitted with a token that the fence has left, and the
 * sequence's error when there are no tokens any more.
 */
Datum
fence_acquire(PG_FUNCTION_ARGS)
{
	enum
	{
		STATUS, TOKEN, HOW, HELD_BY, EXPIRES_AT, VALID_FOR, RETRY_AFTER, REASON,
		COLUMNS
	};
	Request		request;
	FenceTable *table;
	FenceWait	wait;
	FenceRow	row;
	FenceObstacle obstacle = {0};
	FenceResult result;
	const char *how = NULL;
	Look		seen;

	request.resource = fence_param_resource(fcinfo, 0);
	request.holder = fence_param_holder(fcinfo, 1);
	request.ttl = fence_param_ttl(fcinfo, 2);
	fence_wait_begin(&wait, fence_param_wait(fcinfo, 3));
	request.authority = fence_param_authority(fcinfo, 4, false);

	PreventCommandDuringRecovery("fence_acquire()");
	PreventCommandIfReadOnly("fence_acquire()");
	PreventCommandIfParallelMode("fence_acquire()");

	table = fence_table_open(RowExclusiveLock);
	do
	{
		CHECK_FOR_INTERRUPTS();
		seen = look(table, &request, &row, &how, &obstacle);
	} while (seen == LOOK_AGAIN ||
			 (seen == LOOK_HELD && fence_wait_more(&wait, &obstacle)));
	fence_table_close(table);

	fence_result_begin(&result, fcinfo, COLUMNS);
	if (seen == LOOK_GRANTED)
	{
		fence_result_cstring(&result, STATUS, "granted");
		fence_result_int64(&result, TOKEN, row.token);
		fence_result_cstring(&result, HOW, how);
		fence_result_time(&result, EXPIRES_AT, row.expires_at);
		fence_result_usecs(&result, VALID_FOR, request.ttl);
	}
	else
	{
		fence_result_cstring(&result, STATUS, "held");
		if (row.found)
			fence_result_string(&result, HELD_BY, row.holder);
		fence_result_usecs(&result, RETRY_AFTER, obstacle.retry_after);
		fence_result_cstring(&result, REASON, obstacle.reason);
	}
	return fence_result_end(&result);
}
