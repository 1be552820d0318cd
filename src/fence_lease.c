/*
 * fence_lease.c
 *		SQL entries on a lease or token that a holder has: fence_renew,
 *		fence_release and fence_issue.
 *
 * Rules: token and holder are compared under the row's lock. These calls wait
 * for it as any row lock is waited for; lock_timeout applies. Only a release
 * waits for a commit check or a prepared transaction: it ends the generation
 * that those rely on.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "fence_entry.h"
#include "fence_generation.h"
#include "fence_param.h"
#include "fence_result.h"
#include "fence_stats.h"
#include "fence_wakeup.h"
#include "redis_fence.h"
#include "redis_server.h"

PG_FUNCTION_INFO_V1(fence_renew);
PG_FUNCTION_INFO_V1(fence_release);
PG_FUNCTION_INFO_V1(fence_issue);

/* Is this the row's current generation? Token 0 compares the holder only. */
static bool
is_generation(const FenceRow *row, int64 token, FenceString holder)
{
	return row->found && row->issued && !row->released &&
		(token == 0 || row->token == token) &&
		row->holder.data != NULL && fence_string_equal(row->holder, holder);
}

static bool
renewable(const FenceRow *row, int64 token, FenceString holder)
{
	return is_generation(row, token, holder) &&
		fence_row_live(row, GetCurrentTimestamp());
}

/* The row's lease is one of a Redis server. */
static bool
from_redis(const FenceRow *row)
{
	return row->has_lease && !fence_row_leased_by(row, FENCE_AUTHORITY_POSTGRES);
}

/*
 * fence_renew(resource text, token bigint, holder text, ttl interval)
 *
 * One row: renewed with the new end, or lost, or unknown if Redis cannot be
 * asked; the lease then ends when it would have ended. A lease that has
 * expired is lost even if nobody has taken it since. Raises 25006 where
 * nothing can be written, and what redis_fence_renew() raises.
 */
Datum
fence_renew(PG_FUNCTION_ARGS)
{
	enum
	{
		STATUS, EXPIRES_AT, VALID_FOR, COLUMNS
	};
	FenceString resource = fence_param_resource(fcinfo, 0);
	int64		token = fence_param_token(fcinfo, 1);
	FenceString holder = fence_param_holder(fcinfo, 2);
	int64		ttl = fence_param_ttl(fcinfo, 3);
	FenceTable *table;
	FenceRow	row;
	FenceResult result;
	RedisFenceStatus status = REDIS_FENCE_LOST;
	RedisTerm	term;
	bool		by_redis;

	fence_entry_writes("fence_renew()");

	table = fence_table_open(RowExclusiveLock);
	(void) fence_table_read(table, resource, &row);
	by_redis = renewable(&row, token, holder) && from_redis(&row);
	if (by_redis)
		status = redis_fence_renew(row.authority_data, resource, holder, ttl, &term);
	else if (renewable(&row, token, holder))
		status = REDIS_FENCE_GRANTED;

	if (status == REDIS_FENCE_GRANTED &&
		!(fence_table_lock(table, resource, LockTupleNoKeyExclusive, &row) == FENCE_LOCKED &&
		  renewable(&row, token, holder)))
		status = REDIS_FENCE_LOST;
	if (status == REDIS_FENCE_GRANTED && by_redis)
		ttl = Max(redis_fence_left(&term), 0);
	if (status == REDIS_FENCE_GRANTED)
	{
		row.renewed_at = GetCurrentTimestamp();
		row.expires_at = row.renewed_at + ttl;
		fence_table_update(table, resource, &row);
	}
	fence_table_close(table);

	fence_count(status == REDIS_FENCE_GRANTED ? FENCE_COUNT_RENEWED :
				status == REDIS_FENCE_LOST ? FENCE_COUNT_LOST : FENCE_COUNT_RENEW_UNKNOWN);
	fence_result_begin(&result, fcinfo, COLUMNS);
	fence_result_cstring(&result, STATUS,
						 status == REDIS_FENCE_GRANTED ? "renewed" :
						 status == REDIS_FENCE_LOST ? "lost" : "unknown");
	if (status == REDIS_FENCE_GRANTED)
	{
		fence_result_time(&result, EXPIRES_AT, row.expires_at);
		fence_result_usecs(&result, VALID_FOR, ttl);
	}
	return fence_result_end(&result);
}

/*
 * fence_release(resource text, token bigint, holder text, authority name)
 *
 * 'released', or 'not_held' with nothing changed, or 'unknown' if Redis cannot
 * be asked. A lease that has expired can be released until somebody takes it:
 * the next acquire then need not reconcile. Redis goes first, since it is never
 * asked with the fence locked. Raises 25006 where nothing can be written, and
 * what redis_fence_release() raises.
 */
Datum
fence_release(PG_FUNCTION_ARGS)
{
	FenceString resource = fence_param_resource(fcinfo, 0);
	int64		token = PG_ARGISNULL(1) ? 0 : fence_param_token(fcinfo, 1);
	FenceString holder = fence_param_holder(fcinfo, 2);
	const char *authority = fence_param_authority(fcinfo, 3, true);
	FenceTable *table;
	FenceRow	row;
	RedisFenceStatus in_redis = REDIS_FENCE_LOST;
	bool		released;

	fence_entry_writes("fence_release()");
	if (authority != NULL && strcmp(authority, FENCE_AUTHORITY_POSTGRES) != 0)
		(void) redis_server_get(authority);

	table = fence_table_open(RowExclusiveLock);
	(void) fence_table_read(table, resource, &row);
	released = is_generation(&row, token, holder);
	if (released && authority != NULL)
		released = fence_row_leased_by(&row, authority);
	else if (released && from_redis(&row))
		authority = pstrdup(row.authority_data);

	/* Without a token the lease may be one that the fence never heard of. */
	if (authority != NULL && strcmp(authority, FENCE_AUTHORITY_POSTGRES) != 0 &&
		(released || token == 0))
		in_redis = redis_fence_release(authority, resource, holder);
	if (in_redis == REDIS_FENCE_UNKNOWN)
	{
		fence_table_close(table);
		PG_RETURN_TEXT_P(cstring_to_text("unknown"));
	}

	released = released &&
		fence_table_lock(table, resource, LockTupleExclusive, &row) == FENCE_LOCKED &&
		is_generation(&row, token, holder);
	if (released)
	{
		TimestampTz now = GetCurrentTimestamp();

		fence_count(FENCE_COUNT_RELEASES);
		if (row.has_lease && row.expires_at <= now)
			fence_count(FENCE_COUNT_OUTLIVED);
		row.released = true;
		if (row.has_lease)
			row.expires_at = Min(row.expires_at, now);
		fence_table_update(table, resource, &row);
		fence_wakeup_at_end(resource);
	}
	fence_table_close(table);

	released |= in_redis == REDIS_FENCE_GRANTED;
	PG_RETURN_TEXT_P(cstring_to_text(released ? "released" : "not_held"));
}

/*
 * fence_issue(resource text, holder text) returns bigint
 *
 * The token of a new generation, for a lease that is held elsewhere. Raises
 * 25006 where nothing can be written, 55000 for an external resource or while
 * another holder's lease is live, LF001 as fence_acquire.
 */
Datum
fence_issue(PG_FUNCTION_ARGS)
{
	FenceString resource = fence_param_resource(fcinfo, 0);
	FenceString holder = fence_param_holder(fcinfo, 1);
	FenceTable *table;
	FenceRow	row;

	fence_entry_writes("fence_issue()");

	table = fence_table_open(RowExclusiveLock);
	row.found = false;
	while (fence_table_lock(table, resource, LockTupleExclusive, &row) != FENCE_LOCKED)
	{
		CHECK_FOR_INTERRUPTS();
		if (TransactionIdIsValid(row.inserter))
			XactLockTableWait(row.inserter, NULL, NULL, XLTW_None);
		else if (fence_table_lock_absent(table, resource))
			break;
	}

	fence_generation_refuse_external(resource, &row);
	if (fence_row_live(&row, GetCurrentTimestamp()) &&
		!fence_string_equal(row.holder, holder))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("resource \"%.*s\" is leased to another holder",
						resource.len, resource.data),
				 errdetail("Its lease of token %lld is live.", (long long) row.token)));
	fence_generation_start(table, resource, &row, holder, NULL, 0);
	fence_table_close(table);
	fence_count(FENCE_COUNT_ISSUED);

	PG_RETURN_INT64(row.token);
}
